//! `Exposition`: a page in Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, but for restarts.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

/// A page as it is written, one family of samples after the other.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    /// The media type of the page.
    pub const MEDIA_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a family; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        self.family = name;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample of the family.
    pub fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.sample_of("", labels, value);
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// A histogram: its buckets by their upper bounds, the last one's being infinite; what they add up
    /// to, in seconds.
    pub fn histogram(&mut self, buckets: impl Iterator<Item = (f64, u64)>, sum_seconds: f64) {
        let mut below = 0;
        for (bound, count) in buckets {
            below += count;
            if bound.is_finite() {
                self.sample_of("_bucket", &[("le", &bound)], below);
            } else {
                self.sample_of("_bucket", &[("le", &"+Inf")], below);
            }
        }
        self.sample_of("_sum", &[], sum_seconds);
        self.sample_of("_count", &[], below);
    }

    fn sample_of(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        for (at, (name, label)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let label = label.to_string();
            let label = label.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(self.text, "{name}=\"{}\"", label.replace('\n', "\\n"));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_prometheus_wants_it() {
        let mut page = Exposition::default();
        page.family("a_total", Kind::Counter, "What a is.");
        page.sample(&[("x", &"1\\ \"q\"\n"), ("y", &2)], 3);
        page.single("b", Kind::Gauge, "What b is.", 0.5);
        page.family("c_seconds", Kind::Histogram, "What c is.");
        let buckets = [(0.05, 1), (0.1, 2), (f64::INFINITY, 3)];
        page.histogram(buckets.into_iter(), 1.25);
        let want = "# HELP a_total What a is.\n# TYPE a_total counter\n\
            a_total{x=\"1\\\\ \\\"q\\\"\\n\",y=\"2\"} 3\n\
            # HELP b What b is.\n# TYPE b gauge\nb 0.5\n\
            # HELP c_seconds What c is.\n# TYPE c_seconds histogram\n\
            c_seconds_bucket{le=\"0.05\"} 1\nc_seconds_bucket{le=\"0.1\"} 3\n\
            c_seconds_bucket{le=\"+Inf\"} 6\nc_seconds_sum 1.25\nc_seconds_count 6\n";
        assert_eq!(page.into_text(), want);
    }
}
