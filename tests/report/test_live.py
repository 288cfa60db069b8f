#!/usr/bin/env python3
"""The live server against plain sockets: what it serves, what it refuses, and that no reader, however
slow or rude, delays the one who pushes."""
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import make_runs
from support import TERSE, Case, LiveServer, row

STEP = '{"kind":"step","step":%d,"seconds":%d,"loss":1,"bytes_sent":1,"dense_bytes":1}'


def talk(server, request):
    return talk_to(("127.0.0.1", server.port), request)


def talk_to(address, request, limit=1 << 22):
    """Everything that comes back until the connection closes (or a second of silence)."""
    with socket.create_connection(address, 10) as link:
        link.settimeout(1.0)
        got = b""
        try:
            link.sendall(request)
            while len(got) < limit:
                part = link.recv(65536)
                if not part:
                    break
                got += part
        except (socket.timeout, ConnectionError):
            pass
        return got


def get(path, method="GET", host="127.0.0.1", extra=""):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{extra}\r\n".encode()


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0


def open_events(server, extra=""):
    link = socket.create_connection(("127.0.0.1", server.port), 10)
    link.settimeout(5)
    link.sendall(get("/events", extra=extra).replace(b"Connection: close\r\n", b""))
    return link


def read_until(link, mark, seconds=10):
    got = b""
    end = time.monotonic() + seconds
    while mark not in got and time.monotonic() < end:
        part = link.recv(65536)
        if not part:
            break
        got += part
    return got


class Live(Case):
    def setUp(self):
        super().setUp()
        self.server = LiveServer()
        self.addCleanup(self.server.stop)

    def test_page(self):
        answer = talk(self.server, get("/"))
        self.assertEqual(status(answer), 200)
        self.assertIn(b'"mode":"live"', answer)
        self.assertIn(b"Content-Security-Policy: default-src 'none'", answer)
        head = talk(self.server, get("/", "HEAD"))
        self.assertEqual(status(head), 200)
        self.assertNotIn(b"<html", head)
        self.assertTrue(self.server.address.startswith("http://127.0.0.1:"))

    def test_other_paths_are_refused(self):
        for path in ("/x", "/../../etc/passwd", "/..%2f..%2fetc/passwd", "//", "/events/", "/events/..",
                     "/%00", "/%", "/index.html", "/favicon.ico", "/.git/config",
                     "/" + "a" * 5000):
            answer = talk(self.server, get(path))
            self.assertIn(status(answer), (400, 404, 414, 431), path)
            self.assertNotIn(b"root:", answer)

    def test_other_methods_are_refused(self):
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"):
            answer = talk(self.server, get("/", method))
            self.assertEqual(status(answer), 405, method)
            self.assertIn(b"Allow: GET, HEAD", answer)

    def test_oversized_requests_are_refused(self):
        answer = talk(self.server, get("/" + "a" * (1 << 20)))
        self.assertIn(status(answer), (0, 413, 414, 431))
        answer = talk(self.server, get("/", extra="X: " + "a" * (1 << 20) + "\r\n"))
        self.assertIn(status(answer), (0, 413, 431))
        answer = talk(self.server, get("/", extra="Content-Length: 99999999999\r\n"))
        self.assertEqual(status(answer), 413)
        answer = talk(self.server, get("/", extra="Transfer-Encoding: chunked\r\n"))
        self.assertEqual(status(answer), 413)
        self.assertEqual(status(talk(self.server, get("/"))), 200)

    def test_nonsense_is_survived(self):
        for request in (b"\0" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 10000,
                        b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n"):
            talk(self.server, request)
        self.assertEqual(status(talk(self.server, get("/"))), 200)

    def test_another_name_is_refused(self):
        self.assertEqual(status(talk(self.server, get("/", host="evil.example"))), 421)
        self.assertEqual(status(talk(self.server, get("/", host="127.0.0.1.evil.example"))), 421)
        for host in ("localhost:evil.com", "127.0.0.1:80@evil.com", "localhost:", "localhost:123456",
                     "localhost:80:80", "localhost.", "[::1]x", "", " localhost.evil.com"):
            self.assertIn(status(talk(self.server, get("/", host=host))), (400, 421), host)
        for host in ("localhost:80", "LocalHost", "127.0.0.1:65535", "[::1]:1"):
            self.assertEqual(status(talk(self.server, get("/", host=host))), 200, host)

    def test_requests_that_never_end_do_not_keep_others_out(self):
        """200 requests are half sent; the page and its events come at once. The half requests are
        given up after some seconds, and the events go on."""
        half = [socket.create_connection(("127.0.0.1", self.server.port), 10) for _ in range(200)]
        for link in half:
            self.addCleanup(link.close)
            link.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        start = time.monotonic()
        self.assertEqual(status(talk(self.server, get("/"))), 200)
        stream = open_events(self.server)
        self.addCleanup(stream.close)
        self.assertIn(b"event: hello", read_until(stream, b"hello"))
        self.assertLess(time.monotonic() - start, 5)
        for link in half:
            link.settimeout(30)
            try:
                while link.recv(1000):
                    pass
            except ConnectionError:
                pass
        self.server.push(STEP % (1, 1))  # the stream is as old as they were, and lives
        self.assertIn(b'"step":1,', read_until(stream, b'"step":1,'))

    def test_history_then_stream_then_bye(self):
        self.server.push('{"kind":"run","method":"dense"}', STEP % (1, 1))
        link = open_events(self.server)
        self.addCleanup(link.close)
        got = read_until(link, b'"step":1,')
        self.assertLess(got.index(b"event: hello"), got.index(b'"kind":"run"'))
        self.server.push(STEP % (2, 2))
        self.assertIn(b'"step":2,', read_until(link, b'"step":2,'))
        self.server.push(STEP % (3, 3))
        self.server.process.stdin.close()
        last = read_until(link, b"event: bye")
        self.assertIn(b'"step":3,', last)
        self.assertIn(b"event: bye", last)
        self.assertEqual(self.server.stop(), 0)

    def test_a_reader_that_reconnects_gets_the_rest(self):
        self.server.push(*[STEP % (i, i) for i in range(1, 6)])
        with open_events(self.server) as link:
            got = read_until(link, b'"step":5,').decode()
        third = next(line for line in got.splitlines() if line.endswith("-3"))[4:]
        with open_events(self.server, extra=f"Last-Event-ID: {third}\r\n") as link:
            got = read_until(link, b'"step":5,')
        self.assertNotIn(b"hello", got)
        self.assertNotIn(b'"step":3,', got)
        self.assertIn(b'"step":4,', got)
        with open_events(self.server, extra="Last-Event-ID: other-3\r\n") as link:
            got = read_until(link, b'"step":5,')
        self.assertIn(b"hello", got)  # another server's number is ignored
        self.assertIn(b'"step":1,', got)

    def test_lines_that_would_break_the_stream_are_not_shown(self):
        self.server.push('{"kind":"long","x":"' + "y" * 70000 + '"}', "a\rdata: b", STEP % (1, 1))
        with open_events(self.server) as link:
            got = read_until(link, b'"step":1,')
        self.assertNotIn(b"yyy", got)
        self.assertNotIn(b"data: b", got)

    def push_many(self, times):
        self.server.push(f"!{times} " + STEP % (7, 7))
        total, longest = map(float, self.server.process.stdout.readline().split())
        return total / times, longest

    def test_slow_readers_cost_nothing(self):
        alone, _ = self.push_many(100000)
        stuck = [open_events(self.server) for _ in range(8)]  # never read from
        for link in stuck:
            self.addCleanup(link.close)
        time.sleep(0.3)
        beside, longest = self.push_many(100000)
        print("a push: %.2f us alone, %.2f us beside 8 readers that do not read, the longest %.0f us"
              % (1e6 * alone, 1e6 * beside, 1e6 * longest))
        self.assertLess(beside, 100e-6)
        began = time.monotonic()
        self.server.stop()
        self.assertLess(time.monotonic() - began, 5)

    def test_a_slow_reader_misses_steps_and_sees_the_end(self):
        self.server.push('{"kind":"run","method":"dense"}')
        link = open_events(self.server)
        self.addCleanup(link.close)
        time.sleep(0.2)
        for i in range(0, 200000, 20000):
            self.push_many(20000)
        self.server.push('{"kind":"end","status":"finished"}')
        got = read_until(link, b'"kind":"end"', 20)
        self.assertIn(b'"kind":"run"', got)
        self.assertIn(b'"kind":"end"', got)
        self.assertLess(got.count(b'"kind":"step"'), 100000)

    def test_closing_readers_do_not_disturb(self):
        for _ in range(350):  # more than may be connected at once
            link = open_events(self.server)
            self.server.push(STEP % (1, 1))
            link.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and status(talk(self.server, get("/"))) != 200:
            self.server.push(STEP % (1, 1))
            time.sleep(0.2)
        self.assertEqual(status(talk(self.server, get("/"))), 200)
        self.assertEqual(self.server.stop(), 0)


class Start(Case):
    def refuse(self, *words):
        server = LiveServer(*words)
        self.assertEqual(server.address, "")
        shown = server.process.stderr.read()
        self.assertEqual(server.stop(), 1)
        return shown

    def test_a_taken_port_is_named(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            shown = self.refuse("127.0.0.1", str(port))
        self.assertIn(f"port {port}: the port is taken by another program", shown)

    def test_a_host_that_is_not_here(self):
        self.assertIn("192.0.2.1", self.refuse("192.0.2.1", "0"))
        self.assertIn("no.such.host.invalid", self.refuse("no.such.host.invalid", "0"))

    def test_only_this_machine_unless_asked(self):
        server = LiveServer()
        self.addCleanup(server.stop)
        with open("/proc/net/tcp", encoding="ascii") as file:
            mine = [line.split()[1] for line in file if f":{server.port:04X} " in line.split(" rem")[0]]
        listening = [address for address in mine if address.endswith(f":{server.port:04X}")]
        self.assertIn(f"0100007F:{server.port:04X}", listening)
        self.assertNotIn(f"00000000:{server.port:04X}", listening)

    def test_every_address_if_asked(self):
        server = LiveServer("0.0.0.0", "0")
        self.addCleanup(server.stop)
        self.assertEqual(status(talk(server, get("/", host="any.example"))), 200)

    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            self.skipTest(f"this machine has no ::1 ({error})")
        server = LiveServer("::1", "0")
        self.addCleanup(server.stop)
        self.assertTrue(server.address.startswith("http://[::1]:"))
        with socket.create_connection(("::1", server.port), 10) as link:
            link.sendall(get("/", host="[::1]"))
            self.assertEqual(status(link.recv(4096)), 200)
            self.assertEqual(status(talk_to(("::1", server.port), get("/", host="evil.example"))), 421)

    def test_the_sample_lines_arrive(self):
        server = LiveServer()
        self.addCleanup(server.stop)
        sample = row("def:ratio=64")
        lines = list(make_runs.lines(sample, 300, 10, 1))
        server.push({"kind": "run", **make_runs.about(sample[0], 1)}, *lines)
        with open_events(server) as link:
            got = read_until(link, b'"kind": "end"').decode()
        received = [json.loads(line[6:]) for line in got.splitlines() if line.startswith("data: {\"kind")]
        self.assertEqual(received[1:], lines)


class Followed(Case):
    """terse report RUN --live: what another program writes to the folder."""

    def start(self, folder):
        process = subprocess.Popen([TERSE, "report", folder, "--live", "0"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        line = process.stderr.readline()
        self.assertIn("live page: http://127.0.0.1:", line)
        self.port = int(line.rsplit(":", 1)[1].strip(" /\n"))
        return process

    def test_lines_appear_as_they_are_written(self):
        folder = self.path("run")
        process = self.start(folder)  # the folder is not there yet
        lines = [json.dumps(line) for line in make_runs.lines(row("dense"), 100, 10, 1)]
        os.mkdir(folder)
        link = open_events(self)
        self.addCleanup(link.close)
        with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
            json.dump(make_runs.about("dense", 1), file, indent=1)
        with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
            file.write(lines[0] + "\n" + lines[1][:20])  # half a line is no line
            file.flush()
            got = read_until(link, lines[0].encode())
            self.assertIn(b'"kind":"run"', got)
            self.assertLess(got.index(b'"kind":"run"'), got.index(lines[0].encode()))
            time.sleep(0.5)
            file.write(lines[1][20:] + "\n")
            file.flush()
            self.assertIn(lines[1].encode(), read_until(link, lines[1].encode()))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 0)

    def test_a_file_that_is_replaced_ends_it(self):
        folder = make_runs.write_run(self.folder, row("dense"), 100, 10, 1)
        process = self.start(folder)
        link = open_events(self)
        self.addCleanup(link.close)
        read_until(link, b'"status"')
        os.rename(os.path.join(folder, "metrics.jsonl"), self.path("old"))
        with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
            file.write("")
        self.assertEqual(process.wait(20), 1)
        self.assertIn("was replaced", process.stderr.read())


if __name__ == "__main__":
    unittest.main()
