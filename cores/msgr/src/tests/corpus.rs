//! Structures of cephx as real daemons encoded them: read to the last byte, written identically.

use super::archive;
use crate::auth::proto::*;
use crate::auth::{ExpiringKey, Key, RotatingKeys};
use denc::{Decode, Encode};
use std::collections::BTreeMap;

fn same<T: Decode + Encode>(kind: &str, path: &str, bytes: &[u8]) {
    let value = T::from_bytes(bytes).unwrap_or_else(|e| panic!("{kind} {path}: {e}"));
    assert_eq!(value.to_vec(), bytes, "{kind} {path}");
}

#[test]
fn structures_of_cephx_are_read_and_written_identically() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (path, bytes) in archive("ceph-objects-16.2.0.tar.xz", |path| path.contains("/objects/")) {
        let kind = path.rsplit('/').nth(1).unwrap();
        match kind {
            "AuthCapsInfo" => same::<AuthCaps>(kind, &path, &bytes),
            "AuthTicket" => same::<AuthTicket>(kind, &path, &bytes),
            "CephXAuthenticate" => same::<Authenticate>(kind, &path, &bytes),
            "CephXAuthorize" => same::<Authorize>(kind, &path, &bytes),
            "CephXAuthorizeChallenge" | "CephXServerChallenge" => same::<ServerChallenge>(kind, &path, &bytes),
            "CephXAuthorizeReply" => same::<AuthorizeReply>(kind, &path, &bytes),
            "CephXChallengeBlob" => same::<ChallengeBlob>(kind, &path, &bytes),
            "CephXRequestHeader" => same::<u16>(kind, &path, &bytes),
            "CephXResponseHeader" => same::<ResponseHeader>(kind, &path, &bytes),
            "CephXServiceTicket" => same::<ServiceTicket>(kind, &path, &bytes),
            "CephXServiceTicketInfo" => same::<TicketInfo>(kind, &path, &bytes),
            "CephXServiceTicketRequest" => same::<TicketRequest>(kind, &path, &bytes),
            "CephXTicketBlob" => same::<TicketBlob>(kind, &path, &bytes),
            "CryptoKey" => same::<Key>(kind, &path, &bytes),
            "ExpiringCryptoKey" => same::<ExpiringKey>(kind, &path, &bytes),
            "RotatingSecrets" => same::<RotatingKeys>(kind, &path, &bytes),
            _ => continue,
        }
        *seen.entry(kind.to_string()).or_default() += 1;
    }
    assert_eq!(seen.len(), 17, "{seen:?}");
}
