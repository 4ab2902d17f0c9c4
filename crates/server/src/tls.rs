//! The certificate of a server that others reach.

use crate::{Error, Listen, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// What a connection over TLS needs.
pub(crate) fn config(listen: &Listen) -> Result<Arc<ServerConfig>> {
    let refused = |path: &Path, why: String| Error::Certificate { path: path.to_owned(), why };
    let chain: std::result::Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(&listen.certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|why| refused(&listen.certificate, why.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&listen.key).map_err(|why| refused(&listen.key, why.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| refused(&listen.certificate, why.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|why| refused(&listen.certificate, why.to_string()))?;
    Ok(Arc::new(config))
}
