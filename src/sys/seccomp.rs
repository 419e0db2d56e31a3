//! `seccomp(2)` with a listener: each system call of the measured work waits until another thread has counted it.
//!
//! Nothing is forbidden or changed, and no privilege is needed: the filter applies to one thread, created for the work,
//! and to the threads that it starts. Operations of an io_uring ring without a system call are not counted.
//!
//! Sources: seccomp(2), seccomp_unotify(2), `include/uapi/linux/seccomp.h`.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Opcode, Updater, opcode};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// `SECCOMP_IOCTL_NOTIF_RECV`.
const RECEIVE: Opcode = opcode::read_write::<Notification>(b'!', 0);
/// `SECCOMP_IOCTL_NOTIF_SEND`.
const SEND: Opcode = opcode::read_write::<Response>(b'!', 1);

const _: () = assert!(RECEIVE == 0xc050_2100);
const _: () = assert!(SEND == 0xc018_2101);

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction_pointer: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct sock_filter`.
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

const _: () = assert!(size_of::<Notification>() == 80);
const _: () = assert!(size_of::<Response>() == 24);
const _: () = assert!(size_of::<Instruction>() == 8);

/// The value of `door` until the filter is installed. A failure is stored as a negative error number.
const WAITING: i32 = i32::MIN;

/// Runs `work` on its own thread and counts the system calls of this thread and of the threads that it starts.
///
/// This makes the work slower: each call waits for the calling thread, so nothing can be timed meanwhile.
///
/// # Errors
/// `NOSYS` before Linux 5.9 or without seccomp, `BUSY` if another listener exists already. Then nothing was run.
#[doc(alias = "SECCOMP_SET_MODE_FILTER")]
pub(crate) fn counted<T: Send>(work: impl FnOnce() -> T + Send) -> Result<(T, u64)> {
    // Older kernels do not notify a listener when no thread with its filter is left.
    if !kernel_is_at_least(5, 9) {
        return Err(Errno::NOSYS);
    }
    let (door, calls) = (AtomicI32::new(WAITING), AtomicU64::new(0));
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("counted".into()).spawn_scoped(scope, || {
            match filter_this_thread() {
                // Must not be a system call: it would wait for a listener that nobody has yet.
                Ok(listener) => door.store(listener, Ordering::Release),
                Err(errno) => {
                    door.store(-errno.raw_os_error(), Ordering::Release);
                    return Err(errno);
                }
            }
            let done = work();
            Ok((done, calls.load(Ordering::Acquire)))
        });
        let worker = worker.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        answer_all(&door, &calls);
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// Makes all further calls of this thread wait for the listener. Returns the listener as a raw descriptor.
fn filter_this_thread() -> Result<RawFd> {
    const SET_MODE_FILTER: libc::c_uint = 1;
    const NEW_LISTENER: libc::c_ulong = 1 << 3;
    /// `BPF_RET | BPF_K`: the operand is the result for every call.
    const RETURN: u16 = 0x06;
    const USER_NOTIF: u32 = 0x7fc0_0000;
    // Required unless this process is root. It is an attribute of the thread, and ends with it.
    rustix::thread::set_no_new_privs(true)?;
    let instructions = [Instruction { code: RETURN, if_true: 0, if_false: 0, operand: USER_NOTIF }];
    let program = Program { length: 1, instructions: instructions.as_ptr() };
    // SAFETY: the pointer points to a whole `sock_fprog` with as many instructions as it says; both outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, &raw const program) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(fd as RawFd)
}

/// Counts and permits every call until all threads with the filter have ended. Does not allocate meanwhile: a waiting
/// thread may hold the allocator's lock.
fn answer_all(door: &AtomicI32, calls: &AtomicU64) {
    let listener = loop {
        match door.load(Ordering::Acquire) {
            WAITING => thread::sleep(Duration::from_micros(50)),
            failure if failure < 0 => return,
            // SAFETY: the kernel has just made this descriptor, and nobody else has it.
            fd => break unsafe { OwnedFd::from_raw_fd(fd) },
        }
    };
    loop {
        let mut fds = [PollFd::new(&listener, PollFlags::IN)];
        // An error is a signal or a temporary shortage. The waiting calls need an answer in any case.
        let _ = poll(&mut fds, None);
        let seen = fds[0].revents();
        if seen.contains(PollFlags::IN) {
            answer_one(&listener, calls);
        } else if seen.contains(PollFlags::HUP) {
            return;
        }
    }
}

fn answer_one(listener: impl AsFd, calls: &AtomicU64) {
    /// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`: continue as without a filter.
    const CONTINUE: u32 = 1;
    let mut notification = Notification::default();
    // SAFETY: the number belongs to this structure (checked above), which is all zeros as the kernel requires.
    let request = unsafe { Updater::<RECEIVE, Notification>::new(&mut notification) };
    // SAFETY: the kernel writes a notification and nothing else.
    if unsafe { ioctl::ioctl(&listener, request) }.is_err() {
        // The call was interrupted by a signal. It is made again, or never.
        return;
    }
    calls.fetch_add(1, Ordering::Release);
    let mut response = Response { id: notification.id, value: 0, error: 0, flags: CONTINUE };
    // SAFETY: the number belongs to this structure (checked above), and the kernel only reads it.
    let request = unsafe { Updater::<SEND, Response>::new(&mut response) };
    // SAFETY: the answer permits the call and has no other effect. It fails if a signal interrupted the call.
    let _ = unsafe { ioctl::ioctl(&listener, request) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of calls of `work`. `None` if they cannot be counted.
    fn calls(work: impl FnOnce() + Send) -> Option<u64> {
        counted(work).ok().map(|((), calls)| calls)
    }

    #[test]
    fn each_call_is_counted_once_and_does_what_it_did() {
        let file = tempfile::tempfile().unwrap();
        let Some(none) = calls(|| ()) else { return };
        assert_eq!(none, 0);
        let hundred = calls(|| (0..100).for_each(|at| assert_eq!(rustix::io::pwrite(&file, b"x", at), Ok(1))));
        assert_eq!(hundred, Some(100));
        assert_eq!(file.metadata().unwrap().len(), 100);
    }

    #[test]
    fn threads_of_the_work_count_as_well_and_other_threads_do_not() {
        let file = tempfile::tempfile().unwrap();
        let write = || (0..1000).for_each(|at| assert_eq!(rustix::io::pwrite(&file, b"x", at), Ok(1)));
        let alone = calls(|| thread::scope(|scope| drop(scope.spawn(write).join())));
        let Some(alone) = alone else { return };
        assert!((1000..1100).contains(&alone), "{alone}");
        let beside = thread::scope(|scope| {
            scope.spawn(write);
            calls(|| assert_eq!(rustix::io::pwrite(&file, b"x", 0), Ok(1)))
        });
        assert_eq!(beside, Some(1));
    }

    #[test]
    fn it_can_be_done_again_and_the_result_is_the_works() {
        for number in 0..3 {
            if let Ok((result, _)) = counted(|| number * 2) {
                assert_eq!(result, number * 2);
            }
        }
    }
}
