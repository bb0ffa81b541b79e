//! The proxy Envoy, whose filters call a service.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::error::ServerError;
use super::folder::{Folder, new_folder};
use super::process::{PATIENCE, Process};
use super::tool::find_tool;

/// An Envoy process in front of an upstream.
///
/// The upstream is a listener of the same process. It answers every request with 200 and the body
/// `upstream`, and returns the request's field `x-cost` as `x-used`.
///
/// ```no_run
/// use sluicegate_testkit::servers::EnvoyServer;
///
/// let service = "127.0.0.1:8081".parse()?;
/// let envoy = EnvoyServer::calling(service).start()?;
/// assert_ne!(envoy.address().port(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EnvoyServer {
    /// Stops the proxy when it is dropped.
    _process: Process,
    admin: SocketAddr,
    address: SocketAddr,
}

/// An Envoy to start, from [`EnvoyServer::calling`]. Each part of the configuration is YAML.
#[derive(Clone, Debug)]
pub struct EnvoyBuilder {
    filters: String,
    routes: String,
    clusters: String,
    transport: String,
}

impl EnvoyServer {
    /// Returns a builder for a proxy whose cluster `sluicegate` is the gRPC service at this address.
    #[must_use]
    pub fn calling(service: SocketAddr) -> EnvoyBuilder {
        EnvoyBuilder {
            filters: String::new(),
            routes: "- {match: {prefix: /}, route: {cluster: upstream}}".to_owned(),
            clusters: CLUSTER
                .replace("HOST", &service.ip().to_string())
                .replace("PORT", &service.port().to_string()),
            transport: String::new(),
        }
    }

    /// Returns the address that forwards requests to the upstream.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the value of a statistic, such as `cluster.sluicegate.upstream_rq_total`. It is 0
    /// before its first event.
    ///
    /// # Errors
    /// Returns an error if the proxy doesn't answer.
    pub fn statistic(&self, name: &str) -> Result<u64, ServerError> {
        let answer = get(self.admin, &format!("/stats?filter={name}"))
            .map_err(ServerError::io("read the proxy's statistics"))?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Ok(value.and_then(|value| value.trim().parse().ok()).unwrap_or(0))
    }
}

impl EnvoyBuilder {
    /// Sets the list of HTTP filters before the router.
    #[must_use]
    pub fn filters(mut self, list: &str) -> Self {
        list.clone_into(&mut self.filters);
        self
    }

    /// Sets the list of routes. The cluster of the upstream is `upstream`. By default, all requests
    /// go there.
    #[must_use]
    pub fn routes(mut self, list: &str) -> Self {
        list.clone_into(&mut self.routes);
        self
    }

    /// Replaces the list of clusters. One of them has the name `sluicegate`.
    #[must_use]
    pub fn clusters(mut self, list: &str) -> Self {
        list.clone_into(&mut self.clusters);
        self
    }

    /// Sets fields of the last cluster, which is `sluicegate` by default, such as its `transport_socket`.
    #[must_use]
    pub fn transport(mut self, fields: &str) -> Self {
        fields.clone_into(&mut self.transport);
        self
    }

    /// Starts the proxy, and waits until it forwards requests.
    ///
    /// # Errors
    /// Returns an error if there is no Envoy (run `cargo xtask setup`), or an error with the
    /// proxy's log if it doesn't start.
    pub fn start(&self) -> Result<EnvoyServer, ServerError> {
        let program = find_tool("envoy")?;
        let folder = new_folder().map_err(ServerError::io("make the proxy's folder"))?;
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (config, admin_file) = (path("envoy.yaml"), path("admin.txt"));
        fs::write(&config, self.bootstrap(&path("upstream.sock")))
            .map_err(ServerError::io("write the proxy's configuration"))?;
        // Without hot restart, processes on one machine share nothing.
        let words = ["-c", &config, "--admin-address-path", &admin_file, "--disable-hot-restart"];
        let mut words = words.map(str::to_owned).to_vec();
        words.extend(["--concurrency", "1", "-l", "warning"].map(str::to_owned));
        let process = Process::spawn(&folder, &program, &words)?;
        let log = folder.join("server.log");
        let failed = |what: String| ServerError::Start {
            why: format!("{} {what}", program.display()),
            log: fs::read_to_string(&log).unwrap_or_default(),
        };
        // Waiting for the end paces the polling, and detects immediately if the proxy exits.
        let step = Duration::from_millis(5);
        for _ in 0..PATIENCE.as_millis() / step.as_millis() {
            let found = fs::read_to_string(&admin_file).ok();
            let admin = found.and_then(|text| text.trim().parse().ok());
            if let Some((admin, address)) = admin.and_then(|it| Some((it, ready_address(it)?))) {
                return Ok(EnvoyServer { _process: process, admin, address });
            }
            if let Some(status) = process.wait_for_end(step) {
                return Err(failed(format!("ended while starting, with status {status}")));
            }
        }
        Err(failed(format!("did not start within {} s", PATIENCE.as_secs())))
    }

    /// Checks the configuration without starting the proxy.
    ///
    /// # Errors
    /// Returns an error if there is no Envoy (run `cargo xtask setup`), or an error with the
    /// proxy's reason if it doesn't accept the configuration.
    pub fn validate(&self) -> Result<(), ServerError> {
        let program = find_tool("envoy")?;
        let folder = Folder::new().map_err(ServerError::io("make the proxy's folder"))?;
        let config = folder
            .write("envoy.yaml", &self.bootstrap("/upstream.sock"))
            .map_err(ServerError::io("write the proxy's configuration"))?;
        let mut command = Command::new(&program);
        command.args(["--mode", "validate", "-l", "warning", "-c"]).arg(&config);
        let output = command.output().map_err(ServerError::io("start the proxy"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(ServerError::Start {
            why: format!("{} refuses the configuration", program.display()),
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn bootstrap(&self, upstream: &str) -> String {
        BOOTSTRAP
            .replace("UPSTREAM", upstream)
            .replace("          FILTERS", &indented(&self.filters, 10))
            .replace("              ROUTES", &indented(&self.routes, 14))
            .replace("  CLUSTERS", &indented(&self.clusters, 2))
            .replace("    FIELDS", &shifted(&self.transport, 4))
    }
}

/// The upstream and the proxy, with template constants.
///
/// Routes with a `direct_response` skip filters, so the upstream is a listener of its own.
const BOOTSTRAP: &str = r#"
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: upstream
    address: {pipe: {path: "UPSTREAM"}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: upstream
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              response_headers_to_add:
              - header: {key: x-used, value: "%REQ(x-cost)%"}
              routes:
              - match: {prefix: /}
                direct_response: {status: 200, body: {inline_string: upstream}}
  - name: proxy
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: proxy
          http_filters:
          FILTERS
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              ROUTES
  clusters:
  - name: upstream
    load_assignment:
      cluster_name: upstream
      endpoints:
      - lb_endpoints: [{endpoint: {address: {pipe: {path: "UPSTREAM"}}}}]
  CLUSTERS
    FIELDS
"#;

const CLUSTER: &str = r#"
- name: sluicegate
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {http2_protocol_options: {}}
  load_assignment:
    cluster_name: sluicegate
    endpoints:
    - lb_endpoints: [{endpoint: {address: {socket_address: {address: "HOST", port_value: PORT}}}}]
"#;

/// Returns the items of a list at this column. The list may have any other indentation, and be a
/// field of a mapping, as in documentation.
fn indented(list: &str, column: usize) -> String {
    let lines = || list.lines().filter(|it| !it.trim().is_empty());
    let is_field = |first: &str| first.ends_with(':') && !first.trim_start().starts_with('-');
    let has_field = lines().next().is_some_and(is_field);
    let items = || lines().skip(usize::from(has_field));
    let from = items().map(|it| it.len() - it.trim_start().len()).min().unwrap_or(0);
    let line = |line: &str| format!("{:column$}{}", "", &line[from..]);
    items().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the lines at this column.
fn shifted(fields: &str, column: usize) -> String {
    fields.lines().map(|line| format!("{:column$}{line}\n", "")).collect()
}

/// Returns the address of the proxy once it forwards requests.
fn ready_address(admin: SocketAddr) -> Option<SocketAddr> {
    if !get(admin, "/ready").ok()?.contains("LIVE") {
        return None;
    }
    let listeners = get(admin, "/listeners").ok()?;
    listeners.lines().find_map(|line| line.strip_prefix("proxy::")?.trim().parse().ok())
}

/// Returns the answer to a request, with its head. Its body may be chunked.
fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
