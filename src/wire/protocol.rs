//! How one endpoint is spoken: the heads of its requests and the reading of its replies.
//!
//! Made once before a run, so that a header or a field that cannot be is known before the first request.

use crate::config::Url;
use crate::endpoint::{EndpointError, EndpointSettings, HeaderValue, Headers, basic_authorization};
use crate::wire::{KeepTexts, ReplyDecoder, RequestTemplate};

/// Who counts the tokens of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenSource {
    /// Nobody: the endpoint's replies have none.
    Absent,
    /// The client, with its tokenizer.
    Client,
    /// Whoever can: the server's usage, else the number of messages with content.
    #[default]
    Estimate,
    /// The server's usage alone.
    Server,
}

/// What every connection to an endpoint needs.
#[derive(Debug)]
pub struct Protocol {
    /// By URL.
    heads: Vec<RequestTemplate>,
    /// What the decoders of connections are made after.
    decoder: ReplyDecoder,
    tokens: TokenSource,
    keeps: KeepTexts,
}

impl Protocol {
    /// The protocol of the endpoint at `urls`, whose replies keep their texts or do not.
    ///
    /// # Errors
    /// A header that HTTP does not allow, or a place of the content that is none.
    pub fn new(urls: &[Url], settings: &EndpointSettings, keeps: KeepTexts) -> Result<Self, EndpointError> {
        let headers = settings.request_headers(&[])?;
        Ok(Self {
            heads: urls.iter().map(|url| head(url, &headers)).collect(),
            decoder: ReplyDecoder::new(settings, keeps)?,
            tokens: match () {
                () if !settings.dialect.can.produce_tokens => TokenSource::Absent,
                () if settings.server_token_count => TokenSource::Server,
                () => TokenSource::Estimate,
            },
            keeps,
        })
    }

    /// The client counts replies that have tokens, unless the server alone is to count them. Their texts must
    /// be kept for that.
    #[must_use]
    pub fn counted_by_client(mut self) -> Self {
        if self.tokens == TokenSource::Estimate && self.keeps != KeepTexts::No {
            self.tokens = TokenSource::Client;
        }
        self
    }

    /// Bodies of replies are kept as they come.
    #[must_use]
    pub fn keeping_raw(mut self) -> Self {
        self.decoder = self.decoder.keeping_raw();
        self
    }

    /// Who counts the tokens of replies.
    pub const fn tokens(&self) -> TokenSource {
        self.tokens
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

/// The head for `url`, whose user name and password go behind the other headers.
fn head(url: &Url, headers: &Headers) -> RequestTemplate {
    let Some(user_info) = &url.user_info else { return RequestTemplate::new(url, headers) };
    let mut headers = headers.clone();
    let authorization = HeaderValue::Fixed(basic_authorization(user_info));
    headers.push(("Authorization".to_owned(), authorization));
    RequestTemplate::new(url, &headers)
}
