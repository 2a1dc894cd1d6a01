//! `profile_export_aiperf.csv` (spec/artifacts 5): a table of statistics and a table of single values.

use crate::measure::statistics::PERCENTILES;
use crate::measure::summary::{Summary, Value};
use crate::measure::weighted::TimeWeighted;

/// The whole file. An error is one of the writer, which cannot fail in memory.
pub(super) fn file(summary: &Summary) -> Result<Vec<u8>, csv::Error> {
    let mut metrics: Vec<_> = summary.values().collect();
    metrics.sort_by_key(|(metric, _)| metric.tag);

    let mut statistics = writer();
    let percentile_names: Vec<String> = PERCENTILES.iter().map(|percent| format!("p{percent}")).collect();
    let names = ["Metric", "avg", "min", "max", "sum"];
    let header = names.into_iter().chain(percentile_names.iter().map(String::as_str)).chain(["std"]);
    statistics.write_record(header)?;
    let mut singles = writer();
    singles.write_record(["Metric", "Value"])?;
    for (metric, value) in metrics {
        let name = metric.csv_name();
        match value {
            Value::Adjusted(adjusted) => {
                // Without one finite percentile there is neither a row of statistics nor a value.
                if adjusted.percentiles.iter().any(Option::is_some) {
                    let mut row =
                        vec![name, String::new(), number(adjusted.min), String::new(), String::new()];
                    row.extend(adjusted.percentiles.map(|value| value.map(number).unwrap_or_default()));
                    row.push(String::new());
                    statistics.write_record(row)?;
                }
            }
            Value::Full(full) => {
                let mut row =
                    vec![name, number(full.avg), number(full.min), number(full.max), number(full.sum)];
                row.extend(full.percentiles.map(number));
                row.push(number(full.std));
                statistics.write_record(row)?;
            }
            Value::Single(value) => singles.write_record([name, number(*value)])?,
            Value::Weighted(curve) => {
                let TimeWeighted { avg, min, max, p50, p90, p95, p99, std } = *curve;
                let known = [(50, p50), (90, p90), (95, p95), (99, p99)];
                let mut row = vec![name, number(avg), number(min), number(max), String::new()];
                row.extend(PERCENTILES.map(|percent| {
                    let value = known.iter().find(|(of, _)| *of == percent);
                    value.map(|(_, value)| number(*value)).unwrap_or_default()
                }));
                row.push(number(std));
                statistics.write_record(row)?;
            }
        }
    }
    let mut file = bytes(statistics)?;
    file.extend_from_slice(b"\r\n");
    file.extend_from_slice(&bytes(singles)?);
    Ok(file)
}

pub(super) fn writer() -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new())
}

pub(super) fn bytes(writer: csv::Writer<Vec<u8>>) -> Result<Vec<u8>, csv::Error> {
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

pub(super) fn number(value: f64) -> String {
    format!("{value:.2}")
}
