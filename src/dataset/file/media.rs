//! Images, audios and videos of rows: addresses and data as they are, files of this machine as data.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Largest media file in bytes.
const MEDIA_BYTES_MAX: u64 = 256 << 20;

/// What a medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dataset) enum Kind {
    Audio,
    Image,
    Video,
}

/// The item as it is sent.
pub(in crate::dataset) fn item(text: &str, kind: Kind) -> Result<String, String> {
    let as_it_is = ["http://", "https://", "data:"].iter().any(|start| text.starts_with(start));
    let is_encoded_audio = || {
        let format = text.split_once(',').map(|(format, _)| format);
        kind == Kind::Audio
            && format.is_some_and(|format| format.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    if text.is_empty() || as_it_is || is_encoded_audio() {
        return Ok(text.to_owned());
    }
    let path = Path::new(text.strip_prefix("file://").unwrap_or(text));
    let unreadable = |reason: String| format!("`{text}` is neither an address nor data nor a file: {reason}");
    let size = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > MEDIA_BYTES_MAX {
        return Err(format!("`{text}` is larger than {MEDIA_BYTES_MAX} bytes"));
    }
    let bytes = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let format = format(&bytes, &extension, kind).ok_or_else(|| {
        format!("`{text}` has a form that is not known: its first bytes and its ending say nothing")
    })?;
    let data = STANDARD.encode(bytes);
    Ok(match kind {
        Kind::Audio => format!("{format},{data}"),
        Kind::Image => format!("data:image/{format};base64,{data}"),
        Kind::Video => format!("data:video/{format};base64,{data}"),
    })
}

/// What the first bytes say, else what the ending says.
fn format(bytes: &[u8], extension: &str, kind: Kind) -> Option<&'static str> {
    let begins = |start: &[u8]| bytes.starts_with(start);
    match kind {
        Kind::Audio => match extension {
            _ if begins(b"RIFF") => Some("wav"),
            _ if begins(b"ID3") => Some("mp3"),
            "wav" => Some("wav"),
            "mp3" => Some("mp3"),
            _ => None,
        },
        Kind::Image => match extension {
            _ if begins(b"\x89PNG") => Some("png"),
            _ if begins(b"\xff\xd8\xff") => Some("jpeg"),
            _ if begins(b"GIF8") => Some("gif"),
            _ if begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => Some("webp"),
            _ => None,
        },
        Kind::Video => match extension {
            _ if begins(b"\x1a\x45\xdf\xa3") => Some("webm"),
            _ if bytes.get(4..8) == Some(b"ftyp") => Some("mp4"),
            _ => None,
        },
    }
}
