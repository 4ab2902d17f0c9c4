//! Whom to believe. The public roots are compiled in: the same on every machine and in an empty container, and no
//! file or variable of the machine changes who may read a key. Roots of one's own are given by name.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::upstream::UpstreamProblem;

/// How TLS is spoken to the provider.
pub(crate) fn config(extra_roots_pem: Option<&str>) -> Result<Arc<ClientConfig>, UpstreamProblem> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = extra_roots_pem {
        add(&mut roots, pem)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("BUG: the provider supports the versions it is built with");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add(roots: &mut RootCertStore, pem: &str) -> Result<(), UpstreamProblem> {
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|problem| UpstreamProblem::Roots(problem.to_string()))?;
        roots.add(certificate).map_err(|problem| UpstreamProblem::Roots(problem.to_string()))?;
        added += 1;
    }
    // A file without certificates is a mistake that would show only as a failed handshake.
    if added == 0 { Err(UpstreamProblem::Roots("there are none in it".to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_roots_must_be_some() {
        assert!(config(None).is_ok());
        for pem in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(config(Some(pem)), Err(UpstreamProblem::Roots(_))), "{pem}");
        }
    }
}
