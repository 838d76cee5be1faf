//! The latencies as a log that HdrHistogram's own tools read.

use std::io::{BufWriter, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use probe::http::LoadResult;

/// Values are microseconds; HdrHistogram's tools print the largest one in milliseconds.
const MAX_VALUE_DIVISOR: f64 = 1_000.0;

/// Writes the histograms of a load that began at this time.
pub(super) fn write(
    file: impl Write,
    result: &LoadResult,
    start: SystemTime,
) -> anyhow::Result<()> {
    let mut file = BufWriter::new(file);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("netwhy http: microseconds")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(MAX_VALUE_DIVISOR)
        .begin_log_with(&mut file, &mut serializer)?;
    let duration = Duration::from_secs_f64(result.load.duration_s);
    let histograms = [
        ("latency", Some(&result.histograms.latency)),
        ("intended", result.histograms.intended.as_ref()),
    ];
    for (name, histogram) in histograms {
        let Some(histogram) = histogram else { continue };
        log.write_histogram(histogram, Duration::ZERO, duration, Tag::new(name))
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    drop(log);
    Ok(file.flush()?)
}
