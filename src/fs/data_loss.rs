//! Which errors mean that data is lost, in contrast to data that this user may not read.

use rustix::io::Errno;

/// Whether an error shows that the device lost data, or that the filesystem is corrupt.
pub(crate) fn is_data_loss(errno: Errno) -> bool {
    // A device may report a bad sector as NODATA, and a wrong checksum as ILSEQ. Filesystems report a corrupt structure
    // as UCLEAN, and its wrong checksum as BADMSG.
    matches!(errno, Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::REMOTEIO | Errno::UCLEAN | Errno::BADMSG)
}
