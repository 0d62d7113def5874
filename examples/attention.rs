// Rust's standard library alone, over HTTP/1.0, whose replies end with the connection. An application would take the
// crates ureq and serde_json. usage: rustc attention.rs && ./attention [URL]
use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;

fn post(url: &str, body: &str) -> Result<(u16, String), Error> {
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host)?;
    let length = body.len();
    write!(stream, "POST /attention HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n\
                    Content-Length: {length}\r\n\r\n{body}")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let invalid = || Error::new(ErrorKind::InvalidData, "not an HTTP reply");
    let (head, document) = reply.split_once("\r\n\r\n").ok_or_else(invalid)?;
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(invalid)?;
    Ok((status, document.to_string()))
}

fn member<'a>(document: &'a str, name: &str) -> &'a str {
    let after = document.split_once(&format!("\"{name}\":\"")).map_or("", |(_, after)| after);
    after.split('"').next().unwrap_or("")
}

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).or(std::env::var("ATTENTIOND_URL").ok());
    let url = url.unwrap_or("http://127.0.0.1:8080".to_string());
    // The worked example: two queries, two keys and two values of three columns.
    let (_, document) = post(&url, r#"{"q": [[2,0,1],[0,2,1]], "k": [[1,1,0],[0,1,1]], "v": [[1,0,1],[0,1,0]]}"#)?;
    for row in document.split("],[") {
        let numbers = row.split(|c| "[]{},:".contains(c)).filter_map(|number| number.parse::<f32>().ok());
        println!("{}", numbers.map(|number| format!("{number:.6}")).collect::<Vec<_>>().join(" "));
    }
    // The query has two columns, but the key has three.
    let (status, document) = post(&url, r#"{"q": [[2,0]], "k": [[1,1,0]], "v": [[1,0,1]]}"#)?;
    if status != 200 {
        let [code, pointer, detail] = ["code", "pointer", "detail"].map(|name| member(&document, name));
        println!("{status} {code} at {pointer}: {detail}");
    }
    Ok(())
}
