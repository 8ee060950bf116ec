//! [`Exposition`]: a page in Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write as _};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only increases, except for restarts.
    Counter,
    Gauge,
    Histogram,
}

/// A family of samples.
pub(crate) struct Metric<F> {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// The function that writes the samples.
    pub(crate) write: F,
}

macro_rules! metrics {
    ($($kind:ident $name:literal $help:literal $write:expr;)*) => {
        &[$($crate::observe::Metric {
            kind: $crate::observe::Kind::$kind,
            name: $name,
            help: $help,
            write: $write,
        }),*]
    };
}
pub(crate) use metrics;

/// A page that is written one family of samples after the other.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    pub(crate) const MEDIA_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Writes the families of a table. `samples` calls the function of a family.
    pub(crate) fn families<F>(
        &mut self,
        table: &[Metric<F>],
        samples: impl Fn(&F, &mut Exposition),
    ) {
        for metric in table {
            self.family(metric.name, metric.kind, metric.help);
            samples(&metric.write, self);
        }
    }

    /// Starts a family. The next samples belong to it.
    fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        self.family = name;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.sample_of("", labels, value);
    }

    /// Writes a sample without labels.
    pub(crate) fn value(&mut self, value: impl Display) {
        self.sample_of("", &[], value);
    }

    /// Writes a sample without labels, if there is a value.
    pub(crate) fn optional(&mut self, value: Option<impl Display>) {
        if let Some(value) = value {
            self.value(value);
        }
    }

    /// Writes a histogram: the upper bounds and counts of its buckets, the last one unbounded, and
    /// the sum of the observed values in seconds.
    pub(crate) fn histogram(
        &mut self,
        buckets: impl Iterator<Item = (f64, u64)>,
        sum_seconds: f64,
    ) {
        let mut total = 0;
        for (bound, count) in buckets {
            total += count;
            let label = if bound.is_finite() {
                bound.to_string()
            } else {
                "+Inf".to_owned()
            };
            self.sample_of("_bucket", &[("le", &label)], total);
        }
        self.sample_of("_sum", &[], sum_seconds);
        self.sample_of("_count", &[], total);
    }

    fn sample_of(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.family);
        for (at, (name, label)) in labels.iter().enumerate() {
            let separator = if at == 0 { '{' } else { ',' };
            let label = label.to_string().replace('\\', "\\\\");
            let label = label.replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{separator}{name}=\"{label}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_the_format_of_prometheus() {
        let mut page = Exposition::default();
        page.family("a_total", Kind::Counter, "Help of a.");
        page.sample(&[("x", &"1\\ \"q\"\n"), ("y", &2)], 3);
        page.family("b", Kind::Gauge, "Help of b.");
        page.value(0.5);
        page.family("c_seconds", Kind::Histogram, "Help of c.");
        let buckets = [(0.05, 1), (0.1, 2), (f64::INFINITY, 3)];
        page.histogram(buckets.into_iter(), 1.25);
        let expected = "# HELP a_total Help of a.\n# TYPE a_total counter\n\
            a_total{x=\"1\\\\ \\\"q\\\"\\n\",y=\"2\"} 3\n\
            # HELP b Help of b.\n# TYPE b gauge\nb 0.5\n\
            # HELP c_seconds Help of c.\n# TYPE c_seconds histogram\n\
            c_seconds_bucket{le=\"0.05\"} 1\nc_seconds_bucket{le=\"0.1\"} 3\n\
            c_seconds_bucket{le=\"+Inf\"} 6\nc_seconds_sum 1.25\nc_seconds_count 6\n";
        assert_eq!(page.into_text(), expected);
    }
}
