//! The thread that writes the record file while shards run.
//!
//! Batches go round: a shard fills one, the writer empties it and gives it back. A disk that is too slow is
//! never waited for; what finds no empty batch is lost and counted.

use crate::artifact::records::RecordLines;
use crate::measure::RecordBatch;
use crate::shard::driver::RecordPort;
use std::fs::File;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Requests in one batch.
pub const BATCH_RECORDS: usize = 1_024;

/// Batches that go round per shard.
pub const BATCHES_PER_SHARD: usize = 48;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// What became of the record file.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Lines written.
    pub lines: u64,
    /// Requests whose lines could not be written.
    pub lost: u64,
    /// The first thing that went wrong.
    pub fault: Option<String>,
}

/// The running writer.
#[derive(Debug)]
pub struct Recorder {
    thread: JoinHandle<Recorded>,
    path: PathBuf,
}

impl Recorder {
    /// Opens `path` and starts the writer; the ports are for the shards, in order. Batches have room for
    /// `text_bytes` of texts that somebody on the way counts.
    pub fn start(
        path: &Path,
        lines: RecordLines,
        shards: usize,
        text_bytes: usize,
    ) -> Result<(Self, Vec<RecordPort>), std::io::Error> {
        let file = File::create(path)?;
        let (full, input) = mpsc::sync_channel(BATCHES_PER_SHARD * shards.max(1));
        let mut ports = Vec::with_capacity(shards);
        let mut returns = Vec::with_capacity(shards);
        for shard in 0..shards {
            let (back, empty) = mpsc::sync_channel(BATCHES_PER_SHARD);
            for _ in 1..BATCHES_PER_SHARD {
                // The channel has room for all of them: it was made for this many.
                let _ = back.try_send(RecordBatch::with_texts(BATCH_RECORDS, text_bytes));
            }
            ports.push(RecordPort { shard, full: full.clone(), empty });
            returns.push(back);
        }
        let thread = std::thread::Builder::new()
            .name("phasor-records".to_owned())
            .spawn(move || write(file, lines, &input, &returns))?;
        Ok((Self { thread, path: path.to_owned() }, ports))
    }

    /// Waits until everything is written. The shards' ports must be gone.
    pub fn finish(self) -> Recorded {
        let mut recorded = self.thread.join().unwrap_or_else(|_| Recorded {
            fault: Some("the record writer failed".to_owned()),
            ..Recorded::default()
        });
        if let Some(fault) = &mut recorded.fault {
            *fault = format!("{}: {fault}", self.path.display());
        }
        recorded
    }
}

fn write(
    file: File,
    mut lines: RecordLines,
    input: &mpsc::Receiver<(usize, RecordBatch)>,
    returns: &[mpsc::SyncSender<RecordBatch>],
) -> Recorded {
    let mut out = BufWriter::with_capacity(WRITE_BYTES, file);
    let mut recorded = Recorded::default();
    // Ends when every shard has dropped its port.
    while let Ok((shard, mut batch)) = input.recv() {
        write_batch(&mut out, &mut lines, &batch, &mut recorded);
        batch.clear();
        if let Some(back) = returns.get(shard) {
            // A shard that has ended takes nothing back.
            let _ = back.try_send(batch);
        }
    }
    if let Err(error) = out.flush() {
        recorded.fault.get_or_insert_with(|| error.to_string());
    }
    recorded
}

fn write_batch(
    out: &mut BufWriter<File>,
    lines: &mut RecordLines,
    batch: &RecordBatch,
    recorded: &mut Recorded,
) {
    match lines.write(out, batch) {
        Ok(written) => recorded.lines += written,
        Err(error) => {
            recorded.lost += batch.len() as u64;
            recorded.fault.get_or_insert_with(|| error.to_string());
        }
    }
}
