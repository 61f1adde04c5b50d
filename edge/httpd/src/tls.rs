//! Certificates, and what a server shows of them.
//!
//! A cluster has an *authority* of its own: a certificate that people may take into their browsers, and its key. It signs a certificate
//! for each host. All are ECDSA over P-256, as all browsers know it. TLS is 1.3 alone: whoever looks at a page has a browser of this
//! decade, and what is not spoken need not be defended.
//!
//! Everything here is text as PEM, so that it can be kept and given to people as it is.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::time::Duration;

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Days for which a host's certificate is good: Apple's browsers take none that is good for more than 825.
pub const HOST_DAYS: u64 = 820;
/// Days for which an authority is good.
const AUTHORITY_DAYS: u64 = 20 * 365;
/// Most certificates of a chain.
const CHAIN: usize = 8;

/// A certificate, with those that signed it behind it, and its key; both as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificates.
    pub certificate: String,
    /// The key, as PKCS #8. It is a secret.
    pub key: String,
}

/// Certificate that a server shows to those who connect.
#[derive(Clone, Debug)]
pub struct Identity(pub(crate) Arc<ServerConfig>);

impl Identity {
    /// Takes a certificate and its key.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read, or they do not belong together: a sentence.
    pub fn new(pair: &Pair) -> Result<Self, String> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
            .take(CHAIN)
            .collect::<Result<_, _>>()
            .map_err(|e| format!("the certificate cannot be read: {e}"))?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|e| format!("the key cannot be read: {e}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|e| format!("the certificate and the key cannot be used: {e}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// Makes an authority of this name. `now` is in seconds since 1970.
///
/// # Errors
///
/// If the system has no random bytes, or the name cannot stand in a certificate: a sentence.
pub fn authority(name: &str, now: u64) -> Result<Pair, String> {
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let mut params = of_authority(name);
    lasts(&mut params, now, AUTHORITY_DAYS);
    let certificate = params.self_signed(&key).map_err(|e| e.to_string())?;
    Ok(Pair { certificate: pem("CERTIFICATE", certificate.der()), key: pem("PRIVATE KEY", key.serialized_der()) })
}

fn of_authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // It signs hosts, and nobody who signs others.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Makes a certificate for a host, signed by the authority of this name. `names` are host names and IP addresses; one that cannot stand in
/// a certificate is left out. `now` is in seconds since 1970.
///
/// # Errors
///
/// If the authority cannot be read, or the system has no random bytes: a sentence.
pub fn sign(authority: &Pair, name: &str, names: &[String], now: u64) -> Result<Pair, String> {
    let signer = PrivateKeyDer::from_pem_slice(authority.key.as_bytes()).map_err(|e| format!("the authority's key: {e}"))?;
    let signer = KeyPair::try_from(&signer).map_err(|e| format!("the authority's key: {e}"))?;
    let issuer = Issuer::new(of_authority(name), signer);
    let mut params = CertificateParams::default();
    for name in names {
        params.subject_alt_names.extend(CertificateParams::new(vec![name.clone()]).into_iter().flat_map(|p| p.subject_alt_names));
    }
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, names.first().map_or("nacre", String::as_str));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    lasts(&mut params, now, HOST_DAYS);
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let certificate = params.signed_by(&key, &issuer).map_err(|e| e.to_string())?;
    let chain = pem("CERTIFICATE", certificate.der()) + &authority.certificate;
    Ok(Pair { certificate: chain, key: pem("PRIVATE KEY", key.serialized_der()) })
}

/// Sets from when and until when a certificate is good: from yesterday, as clocks of people are behind sometimes.
fn lasts(params: &mut CertificateParams, now: u64, days: u64) {
    let start = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = start + Duration::from_secs(now.saturating_sub(DAY));
    params.not_after = start + Duration::from_secs(now + days * DAY);
}

/// Gives the SHA-256 of the first certificate as browsers show it: `AB:01:…`. None if there is no certificate.
pub fn fingerprint(certificates: &str) -> Option<String> {
    let first = CertificateDer::from_pem_slice(certificates.as_bytes()).ok()?;
    let digest = ring::digest::digest(&ring::digest::SHA256, &first);
    Some(digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":"))
}

/// Writes bytes as PEM.
fn pem(label: &str, bytes: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000;

    #[test]
    fn an_authority_signs_hosts_and_keys_belong_to_certificates() {
        let root = authority("nacre 12345678", NOW).unwrap();
        let host = sign(&root, "nacre 12345678", &["host-a".into(), "10.0.0.1".into(), "fd00::1".into()], NOW).unwrap();
        assert!(Identity::new(&host).is_ok());
        assert_eq!(host.certificate.matches("BEGIN CERTIFICATE").count(), 2, "the host's, and the authority's");
        let other = sign(&root, "nacre 12345678", &[], NOW).unwrap();
        let mixed = Pair { certificate: host.certificate.clone(), key: other.key };
        assert!(Identity::new(&mixed).is_err(), "a key of another certificate is not taken");
        for broken in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(Identity::new(&Pair { certificate: broken.into(), key: host.key.clone() }).is_err(), "{broken:?}");
            assert!(sign(&Pair { key: broken.into(), ..root.clone() }, "x", &[], NOW).is_err());
        }
        let (print, other) = (fingerprint(&host.certificate).unwrap(), fingerprint(&root.certificate).unwrap());
        assert_eq!(print.len(), 32 * 3 - 1);
        assert!(print != other && fingerprint("nothing").is_none());
        // A name that no certificate can have takes nothing from the others.
        assert!(Identity::new(&sign(&root, "nacre 12345678", &["hÖst".into(), "b".into()], NOW).unwrap()).is_ok());
    }
}
