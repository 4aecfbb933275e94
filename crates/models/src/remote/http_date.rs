//! The date of an HTTP header: `Sun, 06 Nov 1994 08:49:37 GMT`.
//!
//! Servers must send this form; the two older ones that receivers once had to read are gone from practice.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const SECONDS_PER_DAY: i64 = 86_400;

/// Seconds since 1970. The day of the week is not checked: it says nothing more.
pub(super) fn unix_seconds(text: &str) -> Option<i64> {
    let (_, date) = text.trim().split_once(", ")?;
    let parts: Vec<&str> = date.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts.as_slice() else { return None };
    let day = number(day, 1, 31)?;
    let month = i64::try_from(MONTHS.iter().position(|name| name == month)?).ok()? + 1;
    let year = number(year, 1970, 9999)?;
    let parts: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = parts.as_slice() else { return None };
    // A leap second is the sixtieth.
    let of_day = number(hour, 0, 23)? * 3_600 + number(minute, 0, 59)? * 60 + number(second, 0, 60)?;
    Some(days_since_1970(year, month, day) * SECONDS_PER_DAY + of_day)
}

fn number(text: &str, min: i64, max: i64) -> Option<i64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && (min..=max).contains(number))
}

/// Counts in years that begin in March, so that the leap day is the last of its year.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719 468 days lie between 1 March of the year 0 and 1 January 1970.
    365 * year + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_its_seconds_since_1970() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(unix_seconds(text), expected, "{text}");
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400));
        check("Wed, 01 Mar 2000 00:00:00 GMT", Some(951_868_800));
        check("Fri, 31 Dec 2100 23:59:59 GMT", Some(4_133_980_799));
        for text in [
            "",
            "soon",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 +0100",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
        ] {
            check(text, None);
        }
    }
}
