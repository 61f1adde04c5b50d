//! Feature bits of the connection: they choose the encodings that the other side sends.

/// Features of a release-16.2 peer: every bit but 17, 33, 38, 44, 45, 49–55, 62, 63. Advertised exactly so, because
/// clients encode each message for the intersection and silently fall back to older layouts without it.
pub const SUPPORTED: u64 = 0x3f01_cfbd_fffd_ffff;

/// Required by monitors and OSDs (bits 18, 25, 30, 41, 48, 58, 59: the CRUSH features of the map in use).
pub const REQUIRED_BY_SERVERS: u64 = 0x0c01_0200_4204_0000;

/// Required by the manager.
pub const REQUIRED_BY_MANAGER: u64 = 0x0800_0000_0000_0000;
