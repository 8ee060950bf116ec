//! The server's metrics, parsed.

use std::collections::BTreeMap;

use crate::common::prelude::*;

/// Samples of one scrape, by name with labels.
#[derive(Clone, Default)]
pub(crate) struct Page {
    pub(crate) samples: BTreeMap<String, f64>,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn read(admin: SocketAddr) -> Outcome<Page> {
        let text = text(admin, "/metrics")?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').ok_or("a sample without a value")?;
            Ok((name.to_owned(), value.parse()?))
        });
        Ok(Page {
            samples: samples.collect::<Outcome<_>>()?,
            text,
        })
    }

    /// A sample; 0 if it is absent.
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.samples.get(name).copied().unwrap_or(0.0)
    }

    /// Connections closed for a reason.
    pub(crate) fn cuts(&self, reason: &str) -> f64 {
        let name = format!("island_metrics_http_connections_cut_total{{reason=\"{reason}\"}}");
        self.get(&name)
    }

    pub(crate) fn sum(&self, family: &str, labels: &str) -> f64 {
        let samples = self.samples.iter();
        let chosen = samples.filter(|(name, _)| name.starts_with(family) && name.contains(labels));
        chosen.fold(0.0, |sum, (_, value)| sum + value)
    }

    /// Names of counters that are lower than before.
    pub(crate) fn shrunk<'a>(&'a self, before: &'a Page) -> impl Iterator<Item = &'a str> {
        let grows = |name: &str| {
            let family = name.split('{').next().unwrap_or(name);
            let mut ends = ["_total", "_bucket", "_sum", "_count"].iter();
            ends.any(|end| family.ends_with(end))
        };
        let was = before.samples.iter();
        was.filter(move |(name, value)| grows(name) && self.get(name) < **value)
            .map(|(name, _)| name.as_str())
    }
}
