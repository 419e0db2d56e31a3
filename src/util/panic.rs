//! What a panic says.

use std::any::Any;

/// The text of a panic, if it has one.
pub(crate) fn text(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
}

/// The number of an error of the system in the text of a panic, as an error is shown (`… (os error 12)`), or as it is
/// printed by `unwrap` (`Os { code: 12, kind: … }`).
pub(crate) fn errno(text: &str) -> Option<i32> {
    let after = |mark: &str| Some(text.split_once(mark)?.1);
    let number = after("Os { code: ").or_else(|| after("(os error "))?;
    number.split([',', ')']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_is_found_in_both_of_its_forms() {
        let printed = "called `Result::unwrap()` on an `Err` value: CouldNotWriteToBuffer(Os { code: 28, kind: \
                       StorageFull, message: \"No space left on device\" })";
        let shown = "failed to allocate an alternative stack: Cannot allocate memory (os error 12)";
        assert_eq!((errno(printed), errno(shown), errno("index out of bounds")), (Some(28), Some(12), None));
    }
}
