//! Forward-auth through nginx, compared with the same nginx in front of a server that decides nothing.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use sluicegate_testkit::servers::find_tool;

use super::check::UNIT;
use super::client::Client;
use crate::embedded::next;
use crate::measure::{Effort, Measured, Pairs, Session, take_turns};
use crate::program::{build, build_own};
use crate::served::Served;

const PAIRS: usize = 11;
/// Requests of a segment.
const REQUESTS: usize = 20_000;
/// The number of different requests.
const DIFFERENT: usize = 1 << 14;
const KEYS: u64 = 100_000;
/// The path of the call of the proxy.
const PATH: &str = "/v1/auth/demo?denied=403";
/// A key on the block list.
const BLOCKED: &str = "mallory";

/// Measures the goal of forward-auth.
pub fn measure(session: &mut Session) {
    session.goal("forward-auth-nginx", beside_empty);
}

fn beside_empty(effort: Effort) -> Result<Measured> {
    let (mut ours, mut empty) = (Side::behind(ours()?)?, Side::behind(empty()?)?);
    let blocked = ours.client.ask(&request(BLOCKED), |answer| answer.to_string())?;
    ensure!(blocked.starts_with("HTTP/1.1 403 "), "the limit isn't enforced: {blocked}");
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut key = || format!("tenant:42:user:{:09}", next(&mut state) % KEYS);
    let requests: Vec<_> = (0..DIFFERENT).map(|_| request(&key())).collect();
    let (mut pairs, mut services) = (Pairs::default(), Pairs::default());
    take_turns(
        effort.count(PAIRS),
        || empty.run(&requests),
        || ours.run(&requests),
        |floor, cost| {
            pairs.add(floor.proxy + floor.service, cost.proxy + cost.service);
            services.add(floor.service, cost.service);
            Ok(())
        },
    )?;
    let part = format!("Of these, the services take {} µs", services.sides());
    let measured = pairs.ratio_to("The empty server", UNIT);
    Ok(measured.noting(&part).part(part))
}

/// A proxy and its service.
struct Side {
    proxy: Served,
    service: Served,
    client: Client,
}

/// The processor time for a request, in µs.
struct Cost {
    proxy: f64,
    service: f64,
}

impl Side {
    fn behind(service: Served) -> Result<Self> {
        let nginx = find_tool("nginx")?;
        let proxy = Served::start(|address, folder| {
            fs::write(folder.join("nginx.conf"), configuration(address, service.address))?;
            fs::write(folder.join("hello"), "hello\n")?;
            let mut command = Command::new(nginx);
            // The error log is a file of the folder, and a second process would outlive the first one.
            command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log", "-g"]);
            command.arg("daemon off; master_process off; pid nginx.pid;");
            Ok(command)
        })?;
        let client = Client::connect(proxy.address, true)?;
        Ok(Self { proxy, service, client })
    }

    /// Sends requests. All of them must pass.
    fn run(&mut self, requests: &[Vec<u8>]) -> Result<Cost> {
        let [proxy, service] = [self.proxy.nanos()?, self.service.nanos()?];
        self.client.run(requests, REQUESTS)?;
        let micros = |nanos: f64| nanos / REQUESTS as f64 / 1e3;
        Ok(Cost {
            proxy: micros(self.proxy.nanos()? - proxy),
            service: micros(self.service.nanos()? - service),
        })
    }
}

/// Starts `sluicegate serve` with a limit by a field of the end user's request.
fn ours() -> Result<Served> {
    let program = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    Served::start(|address, folder| {
        let config = folder.join("limits.yaml");
        let text = format!(
            "http: {{client_address: x-forwarded-for, trusted_proxies: [127.0.0.1]}}\n\
             limits:\n  demo:\n    policies: [token_bucket 1000000/s burst 1000000]\n    \
             key: \"header:x-user\"\n    block: [{BLOCKED}]\n"
        );
        fs::write(&config, text)?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", &address.to_string(), "--config"]).arg(config);
        Ok(command)
    })
}

/// Starts a server that answers all requests by 204.
fn empty() -> Result<Served> {
    let program = build_own("empty-auth")?;
    Served::start(|address, _| {
        let mut command = Command::new(program);
        command.arg(address.to_string());
        Ok(command)
    })
}

/// Returns a request of an end user.
fn request(user: &str) -> Vec<u8> {
    format!("GET /hello HTTP/1.1\r\nHost: bench\r\nX-User: {user}\r\n\r\n").into()
}

/// Returns the configuration of `docs/proxies.md`, for a file in place of a program. Connections stay open.
fn configuration(listen: SocketAddr, service: SocketAddr) -> String {
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = kinds.map(|kind| format!("{kind}_temp_path {kind}; ")).concat();
    format!(
        "events {{}}
http {{
  access_log off;
  {folders}
  keepalive_requests 1000000000;
  upstream service {{
    server {service};
    keepalive 64;
    keepalive_requests 1000000000;
  }}
  server {{
    listen {listen};
    root ./;

    location / {{
      auth_request /_limit;
      auth_request_set $limit $upstream_http_ratelimit;
      auth_request_set $limit_policy $upstream_http_ratelimit_policy;
      add_header RateLimit $limit always;
      add_header RateLimit-Policy $limit_policy always;
    }}

    location = /_limit {{
      internal;
      proxy_pass http://service{PATH};
      proxy_method HEAD;
      proxy_pass_request_body off;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_set_header Content-Length \"\";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Method $request_method;
      proxy_set_header X-Forwarded-Uri $request_uri;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header Sluicegate-Token \"\";
    }}
  }}
}}
"
    )
}
