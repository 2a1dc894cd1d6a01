//! Delay laws: as written on a command line, and as drawn from a seeded generator.

use crate::time::Nanos;
use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

/// A delay law, with its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Memoryless with this mean.
    Exponential(Nanos),
    /// Always this long.
    Fixed(Nanos),
    /// Log-normal with this median and the sigma of the logarithm.
    LogNormal {
        /// Median.
        median: Nanos,
        /// Sigma of the natural logarithm.
        sigma: f64,
    },
    /// Even between two bounds.
    Uniform {
        /// Shortest.
        low: Nanos,
        /// Longest.
        high: Nanos,
    },
}

/// Why a text is no delay law.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DelayError {
    /// The upper bound is below the lower.
    #[error("`{0}`: the second bound of a uniform delay must not be below the first")]
    Bounds(String),
    /// The word before the colon is unknown.
    #[error(
        "`{0}`: a delay is a time (20ms), fixed:TIME, exp:MEAN, uniform:LOW..HIGH or lognormal:MEDIAN,SIGMA"
    )]
    Law(String),
    /// Not a sigma.
    #[error("`{0}`: the sigma of a log-normal delay is a number from 0 to 10")]
    Sigma(String),
    /// Not a time.
    #[error("`{0}`: a time is a number and a unit (us, ms or s), such as 20ms; only 0 needs no unit")]
    Time(String),
}

impl Delay {
    /// No delay.
    pub const NONE: Self = Self::Fixed(Nanos::ZERO);

    /// Draws a delay.
    pub(super) fn draw(self, random: &mut fastrand::Rng) -> Nanos {
        match self {
            Self::Exponential(mean) => Nanos::from_secs_f64(-(1.0 - random.f64()).ln() * mean.as_secs_f64()),
            Self::Fixed(always) => always,
            Self::LogNormal { median, sigma } => {
                let normal = (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (TAU * random.f64()).cos();
                Nanos::from_secs_f64(median.as_secs_f64() * (sigma * normal).exp())
            }
            Self::Uniform { low, high } => Nanos(random.u64(low.0..=high.0)),
        }
    }
}

impl FromStr for Delay {
    type Err = DelayError;

    fn from_str(text: &str) -> Result<Self, DelayError> {
        let Some((law, rest)) = text.split_once(':') else { return time(text).map(Self::Fixed) };
        match law {
            "exp" => time(rest).map(Self::Exponential),
            "fixed" => time(rest).map(Self::Fixed),
            "lognormal" => {
                let (median, sigma) =
                    rest.split_once(',').ok_or_else(|| DelayError::Sigma(text.to_owned()))?;
                let sigma = match sigma.trim().parse::<f64>() {
                    Ok(sigma) if (0.0..=10.0).contains(&sigma) => sigma,
                    Ok(_) | Err(_) => return Err(DelayError::Sigma(sigma.to_owned())),
                };
                Ok(Self::LogNormal { median: time(median)?, sigma })
            }
            "uniform" => {
                let (low, high) = rest.split_once("..").ok_or_else(|| DelayError::Law(text.to_owned()))?;
                let (low, high) = (time(low)?, time(high)?);
                if high < low {
                    return Err(DelayError::Bounds(text.to_owned()));
                }
                Ok(Self::Uniform { low, high })
            }
            _ => Err(DelayError::Law(text.to_owned())),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |span: Nanos| span.0 as f64 / 1e3;
        match *self {
            Self::Exponential(mean) => write!(formatter, "exp:{}us", us(mean)),
            Self::Fixed(always) => write!(formatter, "fixed:{}us", us(always)),
            Self::LogNormal { median, sigma } => write!(formatter, "lognormal:{}us,{sigma}", us(median)),
            Self::Uniform { low, high } => write!(formatter, "uniform:{}us..{}us", us(low), us(high)),
        }
    }
}

fn time(text: &str) -> Result<Nanos, DelayError> {
    let wrong = || DelayError::Time(text.to_owned());
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    // A day is longer than any test waits, and keeps due times far from the end of the time line.
    if (0.0..=86_400.0).contains(&seconds) {
        // Rounded, because 1.1 ms is not a whole number of nanoseconds in binary.
        Ok(Nanos::from_secs_f64(seconds + 0.5e-9))
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_law_is_read_as_written() {
        let ms = Nanos::from_millis;
        assert_eq!("20ms".parse(), Ok(Delay::Fixed(ms(20))));
        assert_eq!("fixed:1.1ms".parse(), Ok(Delay::Fixed(Nanos(1_100_000))));
        assert_eq!("0".parse(), Ok(Delay::NONE));
        assert_eq!("exp:250us".parse(), Ok(Delay::Exponential(Nanos(250_000))));
        assert_eq!("uniform:10ms..30ms".parse(), Ok(Delay::Uniform { low: ms(10), high: ms(30) }));
        assert_eq!("lognormal:2s,0.5".parse(), Ok(Delay::LogNormal { median: ms(2_000), sigma: 0.5 }));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["fixed:1500us", "exp:20000us", "uniform:0us..7us", "lognormal:20000us,0.25"] {
            let delay: Result<Delay, _> = text.parse();
            assert_eq!(delay.map(|delay| delay.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_is_no_delay_names_its_cure() {
        for text in
            ["20", "ms", "-1ms", "20m", "gauss:3ms", "uniform:3ms", "uniform:3ms..1ms", "exp:", "1e9s"]
        {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
        assert!("lognormal:3ms,x".parse::<Delay>().is_err_and(|error| error.to_string().contains("sigma")));
    }

    #[test]
    fn draws_have_the_mean_of_their_law() {
        let mean = |delay: Delay| {
            let mut random = fastrand::Rng::with_seed(7);
            (0..100_000).map(|_| delay.draw(&mut random).as_millis_f64()).sum::<f64>() / 100_000.0
        };
        let ms = Nanos::from_millis;
        assert!((mean(Delay::Exponential(ms(20))) - 20.0).abs() < 0.4);
        assert!((mean(Delay::Uniform { low: ms(10), high: ms(30) }) - 20.0).abs() < 0.2);
        assert!((mean(Delay::Fixed(ms(20))) - 20.0).abs() < 1e-9);
        let lognormal = mean(Delay::LogNormal { median: ms(20), sigma: 0.5 });
        assert!((lognormal - 20.0 * (0.125_f64).exp()).abs() < 0.4, "{lognormal}");
    }
}
