//! Class `otp`: one-time passwords that depend on the time (RFC 6238). A password is tried with one call and its result
//! asked for with another, since a write that fails leaves nothing behind and one that succeeds returns nothing.
//!
//! Five passwords may be tried within one step. A step's password is good once.
//!
//! What differs from Ceph on purpose: a password of an earlier step uses up that step, and not the one that is as much later;
//! windows of more than 1,000 steps count as 1,000; a step of no seconds accepts nothing.

mod hmac;

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::otp::{
    Check, CheckOp, GetOp, GetReply, Header, Info, Instance, RemoveOp, ResultReply, SetOp, TimeReply, result, seed,
};
use messages::class::user::Nothing;
use types::{Errno, UTime};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "otp_set", flags: RD | WR, run: otp_set },
    Method { name: "otp_get", flags: RD, run: otp_get },
    Method { name: "otp_check", flags: RD | WR, run: otp_check },
    Method { name: "otp_get_result", flags: RD, run: otp_get_result },
    Method { name: "otp_remove", flags: RD | WR, run: otp_remove },
    Method { name: "get_current_time", flags: RD, run: get_current_time },
];

/// Passwords that may be tried within one step.
const ATTEMPTS: usize = 5;
/// Most steps before and after the present one that are looked at.
const MAX_WINDOW: u32 = 1_000;
/// Bytes that could be looked at while one step's digest is made.
const DIGEST: u64 = 4 << 10;
/// Key of the names of all devices.
const HEADER: &[u8] = b"header";

fn key(id: &[u8]) -> Bytes {
    [b"otp/", id].concat().into()
}

/// One entry; EIO if it is no such structure.
fn entry<T: Decode>(call: &Call<'_>, key: &[u8]) -> Result<Option<T>, Fail> {
    match call.omap(key) {
        Ok(value) => call.stored(&value, Errno::EIO).map(Some),
        Err(Fail::Errno(Errno::ENOENT)) => Ok(None),
        Err(fail) => Err(fail),
    }
}

fn header(call: &Call<'_>) -> Result<Header, Fail> {
    Ok(entry(call, HEADER)?.unwrap_or_default())
}

fn set_header(call: &mut Call<'_>, header: &Header) {
    call.change(Change::OmapSet(vec![(Bytes::from_static(HEADER), header.to_bytes())]));
}

fn set_instance(call: &mut Call<'_>, instance: &Instance) {
    call.change(Change::OmapSet(vec![(key(&instance.info.id), instance.to_bytes())]));
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() & 1 == 1 {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    text.chunks_exact(2).map(|pair| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()).collect()
}

/// Base 32 (RFC 4648): spaces are skipped, small letters are as large ones, and the padding may be missing.
fn base32(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().filter(|b| **b != b' ').map(u8::to_ascii_uppercase).collect();
    let digits = text.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1);
    if matches!(digits % 8, 1 | 3 | 6) {
        return None;
    }
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for b in &text[..digits] {
        let value = match b {
            b'A'..=b'Z' => b - b'A',
            b'2'..=b'7' => b - b'2' + 26,
            _ => return None,
        };
        bits = bits << 5 | u32::from(value);
        held += 5;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    Some(out)
}

/// Sets devices; what was tried with them stays known.
fn otp_set(call: &mut Call<'_>) -> Outcome {
    let op: SetOp = call.arg()?;
    let mut header = header(call)?;
    for info in op.entries {
        let mut instance: Instance = entry(call, &key(&info.id))?.unwrap_or_default();
        let secret = if info.seed_kind == seed::BASE32 { base32(&info.seed) } else { hex(&info.seed) };
        instance.info = Info { key: secret.ok_or(Errno::EINVAL)?.into(), ..info };
        set_instance(call, &instance);
        header.ids.insert(instance.info.id);
    }
    set_header(call, &header);
    Ok(Bytes::new())
}

fn otp_remove(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let mut header = header(call)?;
    let gone: Vec<Bytes> = op.ids.into_iter().filter(|id| header.ids.remove(id)).map(|id| key(&id)).collect();
    if !gone.is_empty() {
        call.change(Change::OmapRemove(gone));
        set_header(call, &header);
    }
    Ok(Bytes::new())
}

fn otp_get(call: &mut Call<'_>) -> Outcome {
    let op: GetOp = call.arg()?;
    let header = header(call)?;
    let ids = if op.all { header.ids.iter().cloned().collect() } else { op.ids };
    let mut reply = GetReply::default();
    for id in ids.into_iter().filter(|id| header.ids.contains(id)) {
        let instance: Instance = entry(call, &key(&id))?.ok_or(Errno::ENOENT)?;
        reply.found.push(instance.info);
    }
    Ok(reply.to_bytes())
}

/// The step whose password this is: of those around the present one, the nearest; none if it is nobody's.
fn step_of(info: &Info, now: UTime, value: &[u8]) -> Option<u64> {
    if !(6..=8).contains(&value.len()) || info.step == 0 {
        return None;
    }
    let present = u64::try_from(i64::from(now.sec) - i64::from(info.offset)).ok()? / u64::from(info.step);
    let key = hmac::short(&info.key);
    let right = |step: &u64| hmac::code(&key, *step, value.len()).as_bytes() == value;
    let mut around = (0..=u64::from(info.window.min(MAX_WINDOW))).flat_map(|i| {
        let earlier = if i > 0 { present.checked_sub(i) } else { None };
        [present.checked_add(i), earlier].into_iter().flatten()
    });
    around.find(right)
}

/// Forgets what was tried more than a step ago.
fn trim(instance: &mut Instance, now: UTime) {
    let start = now.as_nanos().saturating_sub(u64::from(instance.info.step) * 1_000_000_000);
    let old = instance.checks.iter().take_while(|check| check.time.as_nanos() < start).count();
    instance.checks.drain(..old);
}

/// Tries a password. One too many is not even looked at.
fn otp_check(call: &mut Call<'_>) -> Outcome {
    let op: CheckOp = call.arg()?;
    let mut instance: Instance = entry(call, &key(&op.id))?.ok_or(Errno::ENOENT)?;
    trim(&mut instance, call.now);
    if instance.checks.len() >= ATTEMPTS {
        return Ok(Bytes::new());
    }
    // Each step costs a digest, and the key one of its own.
    let steps = 2 * u64::from(instance.info.window.min(MAX_WINDOW)) + 1;
    call.works(steps * DIGEST + instance.info.key.len() as u64 * 16);
    let result = match step_of(&instance.info, call.now, &op.value) {
        Some(step) if step > instance.last => {
            instance.last = step;
            result::SUCCESS
        }
        _ => result::FAIL,
    };
    instance.checks.push(Check { token: op.token, time: call.now, result });
    set_instance(call, &instance);
    Ok(Bytes::new())
}

fn otp_get_result(call: &mut Call<'_>) -> Outcome {
    let op: CheckOp = call.arg()?;
    let mut instance: Instance = entry(call, &key(&op.id))?.ok_or(Errno::ENOENT)?;
    trim(&mut instance, call.now);
    let found = instance.checks.into_iter().rev().find(|check| check.token == op.token);
    let unknown = || Check { token: op.token.clone(), time: call.now, result: result::UNKNOWN };
    Ok(ResultReply { result: found.unwrap_or_else(unknown) }.to_bytes())
}

fn get_current_time(call: &mut Call<'_>) -> Outcome {
    call.arg::<Nothing>()?;
    Ok(TimeReply { time: call.now }.to_bytes())
}

/// The code of a device at a time, for tests that play a client.
#[cfg(test)]
pub(crate) fn code_at(key: &[u8], now: UTime) -> String {
    hmac::code(key, u64::from(now.sec) / 30, 6)
}
