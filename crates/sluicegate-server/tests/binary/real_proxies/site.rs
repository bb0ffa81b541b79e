//! A proxy in front of a program, with the service.

use std::net::{SocketAddr, TcpStream};

use sluicegate_testkit::proxy::{Cut, Proxy};
use sluicegate_testkit::servers::WebProxy;
use sluicegate_testkit::wait::until;

use super::page::block;
use super::upstream::Upstream;
use crate::support::{Client, File, Reply, Service};

/// The address of clients. It isn't trusted, unlike that of the proxy.
pub(super) const ADDRESS: &str = "127.0.0.9";

const LIMITS: &str = r#"
http:
  client_address: x-forwarded-for
  trusted_proxies: [127.0.0.1]
limits:
  visitors:
    policies: [fixed_window 3/h]
    key: ip+method+host+path+cookie:user
    block: ["127.0.0.9|GET|shop.example|/closed|mallory"]
"#;

pub(super) struct Site {
    proxy: WebProxy,
    pub(super) service: Service,
    /// Between the proxy and the service.
    pub(super) relay: Proxy,
    pub(super) upstream: Upstream,
}

impl Site {
    pub(super) fn nginx() -> Self {
        Self::nginx_with(str::to_owned)
    }

    /// Starts nginx with a changed configuration.
    pub(super) fn nginx_with(change: impl Fn(&str) -> String) -> Self {
        // A worker process would outlive its master, which is killed.
        let words = ["-p", "./", "-c", "nginx.conf", "-e", "stderr", "-g"];
        let words = [&words[..], &["daemon off; master_process off; pid nginx.pid;"]].concat();
        Self::start("nginx", &words, &["nginx.conf"], |text| {
            // The packaged nginx has folders of its own.
            let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
            let folders: String =
                kinds.map(|kind| format!("  {kind}_temp_path {kind};\n")).concat();
            change(text).replacen("http {\n", &format!("http {{\n  access_log off;\n{folders}"), 1)
        })
    }

    pub(super) fn caddy() -> Self {
        // Its administration has a fixed port.
        let global = "{\n\tadmin off\n\tpersist_config off\n}\n";
        Self::start("caddy", &["run", "--config", "Caddyfile"], &["Caddyfile"], |text| {
            format!("{global}{text}")
        })
    }

    pub(super) fn traefik() -> Self {
        let (words, files) = (["--configFile=traefik.yaml"], ["traefik.yaml", "dynamic.yaml"]);
        let site = Self::start("traefik", &words, &files, |text| {
            // Tests ask no other machine.
            let own = "entryPoints:\n  web";
            text.replacen(own, &format!("global: {{checkNewVersion: false}}\n{own}"), 1)
        });
        // It listens before it has its routes.
        until("the routes", || match site.ask("GET", "/", &[]).status {
            404 => Err(404),
            _ => Ok(()),
        });
        site
    }

    /// Starts HAProxy with a changed configuration.
    pub(super) fn haproxy(change: impl Fn(&str) -> String) -> Self {
        Self::start("haproxy", &["-f", "haproxy.cfg"], &["haproxy.cfg", "sluicegate.lua"], change)
    }

    /// Starts Envoy with a changed configuration.
    pub(super) fn envoy(change: impl Fn(&str) -> String) -> Self {
        let words =
            ["-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1", "-l", "warning"];
        Self::start("envoy", &words, &["envoy.yaml"], change)
    }

    /// Starts a proxy with files of the page, on other ports.
    fn start(
        program: &str,
        words: &[&str],
        files: &[&str],
        change: impl Fn(&str) -> String,
    ) -> Self {
        let file = File::new("limits.yaml", LIMITS);
        let service = Service::start(&["--config", file.path()]);
        let relay = Proxy::start_before(service.address()).unwrap();
        let upstream = Upstream::start();
        let adapted = |name: &&str, address: SocketAddr| {
            let ports = [
                ("8080", relay.port()),
                ("3000", upstream.address().port()),
                ("8000", address.port()),
            ];
            // The time limits are too short for a machine that runs many tests.
            let text = change(&block(name))
                .replace(" 1s", " 20s")
                .replace(" 2s", " 20s")
                .replace("2000 ", "20000 ");
            (name.to_string(), with_ports(&text, &ports))
        };
        let proxy = WebProxy::start(program, words, |address| {
            files.iter().map(|name| adapted(name, address)).collect()
        });
        Self { proxy: proxy.unwrap(), service, relay, upstream }
    }

    /// Makes the service unreachable for the proxy.
    pub(super) fn go_away(&self) {
        self.relay.refuse();
        self.relay.cut(Cut::Finish);
    }

    /// Sends a request of a client to the proxy.
    pub(super) fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Reply {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: shop.example\r\n");
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut client = Client::on(self.connect()).unwrap();
        client.send(&(head + "\r\n")).unwrap();
        client.reply().unwrap()
    }

    /// Connects from the address of clients.
    fn connect(&self) -> TcpStream {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let from: SocketAddr = format!("{ADDRESS}:0").parse().unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&self.proxy.address().into()).unwrap();
        socket.into()
    }
}

/// Replaces ports. A new one may contain the digits of another, so the places are marked first.
fn with_ports(text: &str, ports: &[(&str, u16)]) -> String {
    let mark = |index: usize| format!("\u{0}{index}\u{0}");
    let marked = ports
        .iter()
        .enumerate()
        .fold(text.to_owned(), |text, (index, (port, _))| text.replace(port, &mark(index)));
    ports
        .iter()
        .enumerate()
        .fold(marked, |text, (index, (_, port))| text.replace(&mark(index), &port.to_string()))
}
