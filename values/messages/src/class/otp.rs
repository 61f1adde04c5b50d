//! Class `otp`: one-time passwords that depend on the time (RFC 6238), for the deletion of versions in buckets that ask
//! for them.

use bytes::Bytes;
use std::collections::BTreeSet;
use types::UTime;

/// Values of [`Info::seed_kind`]. What is neither is taken for hexadecimal digits.
#[allow(missing_docs)]
pub mod seed {
    pub const HEX: u8 = 1;
    pub const BASE32: u8 = 2;
}

/// Values of [`Check::result`].
#[allow(missing_docs)]
pub mod result {
    pub const UNKNOWN: u8 = 0;
    pub const SUCCESS: u8 = 1;
    pub const FAIL: u8 = 2;
}

/// A device that makes passwords (`otp_info_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// 2: by time.
    pub kind: u8,
    /// Its name.
    pub id: Bytes,
    /// Its secret, as text.
    pub seed: Bytes,
    /// Encoding of the seed: one of [`seed`].
    pub seed_kind: u8,
    /// The secret itself; made from `seed` when the device is set.
    pub key: Bytes,
    /// Second from which steps are counted.
    pub offset: i32,
    /// Seconds of a step.
    pub step: u32,
    /// Steps before and after the present one whose passwords are accepted.
    pub window: u32,
}
denc::versioned!(Info, 1, 1 { kind, id, seed, seed_kind, key, offset, step, window });

/// A password that was tried (`otp_check_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// The caller's name for it.
    pub token: Bytes,
    /// Time.
    pub time: UTime,
    /// One of [`result`].
    pub result: u8,
}
denc::versioned!(Check, 1, 1 { token, time, result });

/// Names of devices, stored under the key `header`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Their names.
    pub ids: BTreeSet<Bytes>,
}
denc::versioned!(Header, 1, 1 { ids });

/// A device and what was tried with it, stored under its name behind `otp/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// The device.
    pub info: Info,
    /// Tries within the last step, in order.
    pub checks: Vec<Check>,
    /// Step of the last password that was right; earlier ones are used up.
    pub last: u64,
}
denc::versioned!(Instance, 1, 1 { info, checks, last });

/// Input of `otp_set`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOp {
    /// Devices.
    pub entries: Vec<Info>,
}
denc::versioned!(SetOp, 1, 1 { entries });

/// Input of `otp_check`, and of `otp_get_result`, which ignores the password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOp {
    /// The device.
    pub id: Bytes,
    /// The password.
    pub value: Bytes,
    /// The caller's name for the trial.
    pub token: Bytes,
}
denc::versioned!(CheckOp, 1, 1 { id, value, token });

/// Output of `otp_get_result`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultReply {
    /// Result of the trial.
    pub result: Check,
}
denc::versioned!(ResultReply, 1, 1 { result });

/// Input of `otp_remove`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveOp {
    /// Devices.
    pub ids: Vec<Bytes>,
}
denc::versioned!(RemoveOp, 1, 1 { ids });

/// Input of `otp_get`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOp {
    /// True if all devices are meant.
    pub all: bool,
    /// Devices.
    pub ids: Vec<Bytes>,
}
denc::versioned!(GetOp, 1, 1 { all, ids });

/// Output of `otp_get`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetReply {
    /// Those that there are.
    pub found: Vec<Info>,
}
denc::versioned!(GetReply, 1, 1 { found });

/// Output of `get_current_time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeReply {
    /// The time.
    pub time: UTime,
}
denc::versioned!(TimeReply, 1, 1 { time });
