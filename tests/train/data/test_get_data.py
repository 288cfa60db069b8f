"""tools/get-data against a server on this machine: what it takes, what it refuses, and that a
refusal leaves nothing behind."""

import hashlib
import http.server
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "get-data"


class Server:
    """Serves a table of name -> bytes; `cut` names files that end too early."""

    def __init__(self, files, cut=()):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.lstrip("/")
                if name not in files:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(files[name])))
                self.end_headers()
                self.wfile.write(files[name][:10] if name in cut else files[name])

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/" % self.server.server_address[1]

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def archive(members, compression="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=compression) as packed:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class GetData(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.folder = pathlib.Path(self.temp.name) / "out"

    def run_tool(self, name, files, sums=None, cut=()):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            env.pop(proxy, None)
        if sums is not None:
            path = pathlib.Path(self.temp.name) / "sums"
            path.write_text("".join("%s %s\n" % (total, file) for file, total in sums.items()))
            env["TERSE_DATA_SUMS"] = str(path)
        with Server(files, cut) as server:
            env["TERSE_DATA_URL"] = server.url
            return subprocess.run([sys.executable, TOOL, name, self.folder], env=env, text=True,
                                  capture_output=True, timeout=60, check=False)

    def left(self):
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []

    def test_wrong_bytes_are_refused_with_both_checksums(self):
        result = self.run_tool("a9a", {"a9a": b"not it", "a9a.t": b"nor this"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("7ba53cccb27e2e525f0fb173e1f446d4", result.stderr)
        self.assertIn(hashlib.sha256(b"not it").hexdigest(), result.stderr)
        self.assertEqual(self.left(), [])

    def test_the_published_checksum_of_a9a_is_that_of_the_real_file(self):
        data = pathlib.Path(os.environ.get("TERSE_TEST_DATA", ROOT.parent / "shared" / "data"))
        files = {name: data / "libsvm" / name for name in ("a9a", "a9a.t")}
        if not all(path.exists() for path in files.values()):
            self.skipTest("no libsvm/a9a in TERSE_TEST_DATA")
        result = self.run_tool("a9a", {name: path.read_bytes() for name, path in files.items()})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.left(), ["a9a", "a9a.t"])
        self.assertIn("--data libsvm:%s/a9a" % self.folder, result.stdout)

    def test_an_archive_is_unpacked_and_only_its_known_members(self):
        members = {"cifar-100-binary/train.bin": b"a" * 3074,
                   "cifar-100-binary/test.bin": b"b" * 3074,
                   "cifar-100-binary/fine_label_names.txt": b"x\n",
                   "cifar-100-binary/coarse_label_names.txt": b"y\n",
                   "../../evil": b"z", "cifar-100-binary/other": b"w"}
        packed = archive(members)
        result = self.run_tool("cifar100", {"cifar-100-binary.tar.gz": packed},
                               {"cifar-100-binary.tar.gz": "md5:" + hashlib.md5(packed).hexdigest()})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.left(), ["coarse_label_names.txt", "fine_label_names.txt",
                                       "test.bin", "train.bin"])
        self.assertEqual((self.folder / "train.bin").read_bytes(), b"a" * 3074)
        self.assertFalse((self.folder.parent / "evil").exists())
        self.assertFalse((self.folder.parent.parent / "evil").exists())

    def test_an_archive_without_a_member_is_refused(self):
        packed = archive({"cifar-10-batches-bin/data_batch_1.bin": b"a"})
        result = self.run_tool("cifar10", {"cifar-10-binary.tar.gz": packed},
                               {"cifar-10-binary.tar.gz": "md5:" + hashlib.md5(packed).hexdigest()})
        self.assertEqual(result.returncode, 1)
        self.assertIn("test_batch.bin", result.stderr)
        self.assertEqual(self.left(), [])

    def test_what_is_cut_off_or_missing_is_refused(self):
        files = {"train.csv": b"1,a,b\n" * 100, "test.csv": b"1,a,b\n"}
        sums = {name: "md5:" + hashlib.md5(data).hexdigest() for name, data in files.items()}
        result = self.run_tool("agnews", files, sums, cut=("train.csv",))
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.left(), [])
        result = self.run_tool("agnews", {"train.csv": files["train.csv"]}, sums)
        self.assertEqual(result.returncode, 1)
        self.assertIn("404", result.stderr)
        self.assertEqual(self.left(), [])

    def test_files_that_are_there_are_not_fetched_again(self):
        files = {"train.csv": b"1,a,b\n", "test.csv": b"2,a,b\n"}
        sums = {name: "md5:" + hashlib.md5(data).hexdigest() for name, data in files.items()}
        self.assertEqual(self.run_tool("agnews", files, sums).returncode, 0)
        result = self.run_tool("agnews", {})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("all files are there", result.stdout)

    def test_an_unknown_name_lists_the_known(self):
        result = self.run_tool("cifar", {})
        self.assertEqual(result.returncode, 2)
        self.assertIn("cifar10", result.stderr)


if __name__ == "__main__":
    unittest.main()
