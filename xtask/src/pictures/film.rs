//! Draws a recording as one SVG that CSS animates: no script, and nothing to load.
//!
//! Without animation, or if the reader prefers reduced motion, the last screen is visible. So its elements are visible
//! by their attributes, those of other screens are hidden, and all animations are rules for readers without that
//! preference.

use super::recording::{Run, Scene};
use super::screen::{COLUMNS, ROWS, Span};
use super::style::{self, MONO, SANS, inline, round};
use anyhow::{Result, ensure};
use std::fmt::Write as _;
use svg::Document;
use svg::node::element::{Element, Group, Rectangle, Style, Text};
use vt100::Color;

/// The seconds of the whole recording.
const SECONDS: f64 = 29.0;
const WIDTH: f64 = 800.0;
const MARGIN: f64 = 20.0;
/// The height of the bar with the caption.
const HEAD: f64 = 44.0;
const ROW: f64 = 20.0;
const COLUMN: f64 = (WIDTH - 2.0 * MARGIN) / COLUMNS as f64;
/// The columns of the prompt `$ `.
const PROMPT: usize = 2;

const GROUND: &str = "#12171d";
const BAR: &str = "#1d252e";
const TEXT: &str = "#d3dbe3";
const BRIGHT: &str = "#ffffff";
const DIM: &str = "#8b98a5";
const GREEN: &str = "#7ee787";
const MARK: &str = "#1f4a33";
/// The sixteen colours of a terminal, readable on the dark ground.
const PALETTE: [&str; 16] = [
    "#5c6773", "#ff7b72", "#7ee787", "#f2cc60", "#79b8ff", "#d2a8ff", "#76e3ea", "#d3dbe3", "#8b98a5", "#ffa198",
    "#a5f0ad", "#ffdf8e", "#a5d0ff", "#e2c5ff", "#b3f0f5", "#ffffff",
];

/// The moments of a command, in parts of the whole recording: its prompt appears, typing begins and ends, and the
/// output appears.
struct Moments {
    prompt: f64,
    typing: f64,
    typed: f64,
    output: f64,
}

/// Draws the recording.
pub(crate) fn draw(scenes: &[Scene]) -> Result<Document> {
    // A row for each command and for the last prompt.
    let rows = |scene: &Scene| 1 + scene.runs.iter().map(|run| 1 + run.output.len()).sum::<usize>();
    let most = scenes.iter().map(rows).max().unwrap_or_default();
    ensure!(most <= usize::from(ROWS), "a screen has {most} rows, more than fit");
    let height = y(most) + 12.0;
    let mut animation = Animation::default();
    let mut window = Group::new().set("font-family", MONO).set("font-size", 15.6).set("fill", TEXT);
    let mut begins = 0.0;
    let schedule = schedule(scenes);
    for (number, (scene, (moments, ends))) in scenes.iter().zip(&schedule).enumerate() {
        let is_last = number + 1 == scenes.len();
        let mut group = Group::new().set("class", format!("a s{number}")).set("opacity", u8::from(is_last));
        animation.add(&format!("s{number}"), &visible(begins, *ends));
        group = group.add(caption(scene, number + 1, scenes.len()));
        let mut row = 0;
        for (index, (run, moments)) in scene.runs.iter().zip(moments).enumerate() {
            group = group.add(typed(run, row, moments, &format!("{number}{index}"), &mut animation));
            row += 1;
            group = group.add(printed(run, row, moments, &format!("{number}{index}"), &mut animation));
            row += run.output.len();
        }
        let mut prompt = Group::new().set("class", format!("a p{number}")).add(prompt_at(row));
        prompt = prompt.add(cursor(row).set("opacity", 1));
        animation.add(&format!("p{number}"), &visible(moments[moments.len() - 1].output, 1.0));
        window = window.add(group.add(prompt));
        begins = *ends;
    }
    let frame = Rectangle::new().set("width", WIDTH).set("height", height).set("rx", 8).set("fill", GROUND);
    let head = style::path(&format!("M0 {HEAD}V8Q0 0 8 0H{}Q{WIDTH} 0 {WIDTH} 8V{HEAD}Z", WIDTH - 8.0));
    let progress = Rectangle::new().set("class", "a bar").set("opacity", 0).set("fill", GREEN);
    let progress = progress.set("y", HEAD - 2.0).set("width", WIDTH).set("height", 2);
    animation.add("bar", "0%{opacity:1;transform:scaleX(0)}100%{opacity:1;transform:scaleX(1)}");
    Ok(style::document(WIDTH, height, TITLE, &description(scenes))
        .add(Style::new(animation.style()))
        .add(frame)
        .add(head.set("fill", BAR))
        .add(progress)
        .add(window))
}

const TITLE: &str = "A terminal: pleach takes two snapshots, compares them, restores a file, and shows shared blocks";

/// The recording for people who do not see it.
fn description(scenes: &[Scene]) -> String {
    let scenes = scenes.iter().map(|scene| {
        let commands: Vec<_> = scene.runs.iter().map(|run| run.command).collect();
        format!("{}: {}.", scene.caption, commands.join("; "))
    });
    scenes.collect::<Vec<_>>().join(" ")
}

/// The moments of all commands, and the end of each screen, in parts of the whole.
fn schedule(scenes: &[Scene]) -> Vec<(Vec<Moments>, f64)> {
    let mut now = 0.0;
    let mut schedule = Vec::new();
    for scene in scenes {
        let mut all = Vec::new();
        for (index, run) in scene.runs.iter().enumerate() {
            // The shell prompts as soon as the last command has ended.
            let prompt = all.last().map_or(now, |last: &Moments| last.output);
            let typing = now + if index == 0 { 0.9 } else { 0.15 };
            let typed = typing + (run.command.len() as f64 * 0.022).clamp(0.4, 1.2);
            let output = typed + 0.2;
            // Time to read.
            now = output + if run.output.is_empty() { 0.1 } else { 0.5 + 0.2 * run.output.len() as f64 };
            all.push(Moments { prompt, typing, typed, output });
        }
        now += scene.rest;
        schedule.push((all, now));
    }
    for (all, ends) in &mut schedule {
        *ends /= now;
        for Moments { prompt, typing, typed, output } in all {
            [prompt, typing, typed, output].into_iter().for_each(|moment| *moment /= now);
        }
    }
    schedule
}

fn caption(scene: &Scene, number: usize, count: usize) -> Group {
    let line = |x: f64, text: String| Text::new(text).set("x", x).set("y", 28).set("font-family", SANS);
    let caption = line(MARGIN, scene.caption.to_owned()).set("font-size", 17).set("font-weight", 600);
    let place = line(WIDTH - MARGIN, format!("{number}/{count}")).set("font-size", 14).set("text-anchor", "end");
    Group::new().add(inline(caption.set("fill", BRIGHT))).add(inline(place.set("fill", DIM)))
}

/// A prompt, and the command behind it, which appears letter by letter.
fn typed(run: &Run, row: usize, moments: &Moments, name: &str, animation: &mut Animation) -> Group {
    let Moments { prompt, typing, typed, output } = *moments;
    let letters = run.command.len();
    let command = words(row, PROMPT, run.command).set("class", "command").set("fill", BRIGHT).set("font-weight", 600);
    // Letters that are not typed yet are below a cover, which shrinks towards its end.
    let cover = cells(row, PROMPT, letters).set("fill", GROUND).set("class", format!("a t t{name}"));
    let (begins, ends) = (percent(typing), percent(typed));
    let steps = format!("animation-timing-function:steps({letters},end)");
    animation.add(
        &format!("t{name}"),
        &format!("0%{{transform:scaleX(1)}}{begins}{{transform:scaleX(1);{steps}}}{ends},100%{{transform:scaleX(0)}}"),
    );
    let first = "transform:translateX(0)";
    let last = format!("transform:translateX({}px)", round(letters as f64 * COLUMN));
    let (shown, hidden) = (percent(prompt), percent(output));
    let cursor_moves = format!(
        "0%{{opacity:0}}{shown}{{opacity:1;{first}}}{begins}{{opacity:1;{first};{steps}}}{ends}{{opacity:1;{last}}}\
         {hidden},100%{{opacity:0;{last}}}"
    );
    animation.add(&format!("c{name}"), &cursor_moves);
    animation.add(&format!("r{name}"), &visible(prompt, 1.0));
    let group = Group::new().set("class", format!("a r{name}")).add(prompt_at(row)).add(inline(command));
    // The cover has no width where nothing is animated.
    group.add(cover.set("transform", "scale(0 1)")).add(cursor(row).set("class", format!("a c{name}")))
}

/// The output of a command.
fn printed(run: &Run, first: usize, moments: &Moments, name: &str, animation: &mut Animation) -> Group {
    let mut group = Group::new().set("class", format!("a o{name}"));
    if run.output.is_empty() {
        return group;
    }
    animation.add(&format!("o{name}"), &visible(moments.output, 1.0));
    if let Some(marked) = run.marked {
        let mark = cells(first + marked, 0, usize::from(COLUMNS)).set("fill", MARK).set("rx", 3);
        group = group.add(mark.set("x", MARGIN - 6.0).set("width", WIDTH - 2.0 * MARGIN + 12.0));
    }
    for (spans, row) in run.output.iter().zip(first..) {
        for span in spans {
            if let Some(ground) = hex(span.look.ground) {
                group = group.add(cells(row, span.column, span.columns()).set("fill", ground));
            }
            for part in span.parts() {
                group = group.add(painted(row, &part));
            }
        }
    }
    group
}

fn painted(row: usize, span: &Span) -> Element {
    let mut text = words(row, span.column, &span.text);
    if let Some(color) = hex(span.look.color) {
        text = text.set("fill", color);
    } else if span.look.is_dim {
        text = text.set("fill", DIM);
    }
    if span.look.is_bold {
        text = text.set("font-weight", 600);
    }
    inline(text)
}

/// Text in a row. It has exactly the width of its cells, with any font.
fn words(row: usize, column: usize, text: &str) -> Text {
    let width = round(text.chars().count() as f64 * COLUMN);
    let text = Text::new(text).set("x", x(column)).set("y", round(y(row) + 15.0));
    text.set("textLength", width).set("lengthAdjust", "spacingAndGlyphs")
}

fn cells(row: usize, column: usize, columns: usize) -> Rectangle {
    let cells = Rectangle::new().set("x", x(column)).set("y", y(row)).set("height", ROW);
    cells.set("width", round(columns as f64 * COLUMN))
}

fn prompt_at(row: usize) -> Element {
    inline(words(row, 0, "$").set("fill", GREEN).set("font-weight", 600))
}

fn cursor(row: usize) -> Rectangle {
    let cursor = cells(row, PROMPT, 1).set("y", y(row) + 1.0).set("height", ROW - 2.0);
    cursor.set("fill", DIM).set("opacity", 0)
}

fn x(column: usize) -> f64 {
    round(MARGIN + column as f64 * COLUMN)
}

fn y(row: usize) -> f64 {
    HEAD + 12.0 + row as f64 * ROW
}

/// A colour of a terminal; nothing for the default one.
fn hex(color: Color) -> Option<String> {
    let level = |index: u8| if index == 0 { 0 } else { 55 + 40 * index };
    let of = |red: u8, green: u8, blue: u8| format!("#{red:02x}{green:02x}{blue:02x}");
    Some(match color {
        Color::Default => return None,
        Color::Rgb(red, green, blue) => of(red, green, blue),
        Color::Idx(index @ 0..16) => PALETTE[usize::from(index)].to_owned(),
        Color::Idx(index @ 16..232) => {
            let cube = index - 16;
            of(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            of(grey, grey, grey)
        }
    })
}

/// The frames of something that is visible from one moment to another.
fn visible(from: f64, to: f64) -> String {
    let begin = if from == 0.0 { String::new() } else { "0%{opacity:0}".to_owned() };
    let end = if to < 1.0 { format!("{},100%{{opacity:0}}", percent(to)) } else { "100%{opacity:1}".to_owned() };
    format!("{begin}{}{{opacity:1}}{end}", percent(from))
}

fn percent(part: f64) -> String {
    format!("{}%", round(part * 100.0))
}

/// The rules of the animation.
#[derive(Default)]
struct Animation {
    rules: String,
    frames: String,
}

impl Animation {
    /// The elements of the class `name` move by these frames.
    fn add(&mut self, name: &str, frames: &str) {
        let _ = writeln!(self.rules, ".{name}{{animation-name:{name}}}");
        let _ = writeln!(self.frames, "@keyframes {name}{{{frames}}}");
    }

    fn style(&self) -> String {
        format!(
            ".t,.bar{{transform-box:fill-box}}.t{{transform-origin:100% 50%}}.bar{{transform-origin:0 50%}}\n\
             @media (prefers-reduced-motion:no-preference){{\n\
             .a{{animation-duration:{SECONDS}s;animation-iteration-count:infinite}}\n\
             .a{{animation-timing-function:step-end}}\n\
             .bar{{animation-timing-function:linear}}\n{}}}\n{}",
            self.rules, self.frames
        )
    }
}
