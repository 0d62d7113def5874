"""A daemon for the tests of a module: `with Daemon() as d:`, then d.address ("127.0.0.1:40123") and d.url."""
import http.client
import json
import os
import signal
import subprocess


class Daemon:
    def __init__(self, *flags):
        program = os.environ.get("ATTENTIOND", "build/attentiond")
        self.process = subprocess.Popen([program, "--port", "0", *flags], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            self.process.kill()
            raise RuntimeError(f"{program} does not start: {line!r}")
        self.url = line.split()[-1].strip()
        self.address = self.url.removeprefix("http://").rstrip("/")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends it as an operator does; an exit status other than 0 is an error."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        self.process.stdout.close()
        if status != 0:
            raise RuntimeError(f"the daemon ended with status {status}")

    def raw(self, method, path, body=None, headers=None):
        """(status, headers in lower case, bytes) of one request on a connection of its own."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()
        finally:
            connection.close()

    def post_json(self, path, document):
        """The reply's document; an error raises."""
        status, _, body = self.raw("POST", path, json.dumps(document), {"Content-Type": "application/json"})
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body.decode()}")
        return json.loads(body)
