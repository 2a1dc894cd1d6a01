//! The thread that writes the files of single requests while shards run.
//!
//! Batches go round: a shard fills one, the writer empties it and gives it back. A disk that is too slow is
//! never waited for; what finds no empty batch is lost and counted.

use crate::artifact::sink::Sink;
use crate::measure::RecordBatch;
use crate::shard::driver::RecordPort;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Requests in one batch.
pub const BATCH_RECORDS: usize = 1_024;

/// Batches that go round per shard.
pub const BATCHES_PER_SHARD: usize = 48;

/// What became of the files.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Lines or entries written, of all files.
    pub lines: u64,
    /// Requests whose lines could not be written.
    pub lost: u64,
    /// The first thing that went wrong with each file.
    pub faults: Vec<String>,
}

/// The running writer.
#[derive(Debug)]
pub struct Recorder {
    thread: JoinHandle<Recorded>,
}

/// A file, and the first thing that went wrong with it.
struct Kept {
    sink: Box<dyn Sink>,
    fault: Option<String>,
}

impl Recorder {
    /// Starts the writer of `sinks`; the ports are for the shards, in order. Batches have room for
    /// `text_bytes` of texts.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        sinks: Vec<Box<dyn Sink>>,
        shards: usize,
        text_bytes: usize,
    ) -> Result<(Self, Vec<RecordPort>), std::io::Error> {
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
            .spawn(move || write(sinks, &input, &returns))?;
        Ok((Self { thread }, ports))
    }

    /// Waits until everything is written. The shards' ports must be gone.
    pub fn finish(self) -> Recorded {
        self.thread.join().unwrap_or_else(|_| Recorded {
            faults: vec!["the record writer failed".to_owned()],
            ..Recorded::default()
        })
    }
}

fn write(
    sinks: Vec<Box<dyn Sink>>,
    input: &mpsc::Receiver<(usize, RecordBatch)>,
    returns: &[mpsc::SyncSender<RecordBatch>],
) -> Recorded {
    let mut files: Vec<Kept> = sinks.into_iter().map(|sink| Kept { sink, fault: None }).collect();
    let mut recorded = Recorded::default();
    // Ends when every shard has dropped its port.
    while let Ok((shard, mut batch)) = input.recv() {
        for Kept { sink, fault } in &mut files {
            match sink.take(&batch) {
                Ok(written) => recorded.lines += written,
                Err(error) => {
                    recorded.lost += batch.len() as u64;
                    fault.get_or_insert_with(|| error.to_string());
                }
            }
        }
        batch.clear();
        if let Some(back) = returns.get(shard) {
            // A shard that has ended takes nothing back.
            let _ = back.try_send(batch);
        }
    }
    for Kept { sink, fault } in &mut files {
        if let Err(error) = sink.end() {
            fault.get_or_insert_with(|| error.to_string());
        }
        let missing = sink.missing();
        recorded.lines = recorded.lines.saturating_sub(missing);
        recorded.lost += missing;
        recorded.faults.extend(fault.take().map(|fault| format!("{}: {fault}", sink.path().display())));
    }
    recorded
}
