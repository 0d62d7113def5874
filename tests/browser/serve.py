"""Serves web/ and hands everything else to a running daemon, so that the page can be worked on without building.

    python3 tests/browser/serve.py http://127.0.0.1:8080 [PORT]
"""
import http.client
import http.server
import os
import sys
import urllib.parse

WEB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "web")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
          "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    daemon = None

    def file(self):
        path = urllib.parse.urlsplit(self.path).path
        name = "index.html" if path == "/" else path[len("/page/"):] if path.startswith("/page/") else None
        if not name or "/" in name or not os.path.isfile(os.path.join(WEB, name)):
            return None
        return os.path.join(WEB, name)

    def do_GET(self):
        name = self.file()
        if not name:
            return self.forward()
        with open(name, "rb") as file:
            body = file.read()
        self.send_response(200)
        self.send_header("Content-Type", TYPES[os.path.splitext(name)[1]])
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection(self.daemon)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "accept-encoding")}
        connection.request(self.command, self.path, body, headers)
        reply = connection.getresponse()
        content = reply.read()
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_POST = forward

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


def start(daemon, port=0):
    """daemon: host:port. Gives the server; its port is server_address[1]."""
    return Server(("127.0.0.1", port), type("Bound", (Handler,), {"daemon": daemon}))


if __name__ == "__main__":
    server = start(urllib.parse.urlsplit(sys.argv[1]).netloc, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print("http://127.0.0.1:%d/" % server.server_address[1], flush=True)
    server.serve_forever()
