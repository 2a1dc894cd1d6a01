//! How one endpoint is spoken: the heads of its requests and the reading of its replies.
//!
//! Made once before a run, so that a header or a field that cannot be is known before the first request.

use crate::config::Url;
use crate::endpoint::{EndpointError, EndpointSettings};
use crate::wire::{KeepTexts, ReplyDecoder, RequestTemplate};

/// What every connection to an endpoint needs.
#[derive(Debug)]
pub struct Protocol {
    /// By URL.
    heads: Vec<RequestTemplate>,
    /// What the decoders of connections are made after.
    decoder: ReplyDecoder,
}

impl Protocol {
    /// The protocol of the endpoint at `urls`, whose replies keep their texts or do not.
    ///
    /// # Errors
    /// A header that HTTP does not allow, or a place of the content that is none.
    pub fn new(urls: &[Url], settings: &EndpointSettings, keeps: KeepTexts) -> Result<Self, EndpointError> {
        let headers = settings.request_headers(&[])?;
        Ok(Self {
            heads: urls.iter().map(|url| RequestTemplate::new(url, &headers)).collect(),
            decoder: ReplyDecoder::new(settings, keeps)?,
        })
    }

    /// The head of requests to the URL in this place.
    pub fn head(&self, url: u16) -> Option<&RequestTemplate> {
        self.heads.get(usize::from(url))
    }

    /// A decoder for a connection.
    pub fn decoder(&self) -> ReplyDecoder {
        self.decoder.fresh()
    }
}
