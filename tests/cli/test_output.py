"""Files appear complete or not at all, and a failure loses nothing."""
import os
import pty
import stat
import subprocess
import unittest

from support import Case, MACHINE, normals, npy, OK, REFUSED, TERSE


class Output(Case):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.npy", npy(normals(1000)))

    def encode(self, output, *more, **how):
        return self.terse("encode", self.input, "-o", output, "-c", "sign", *more, **how)

    def names(self, folder=""):
        return sorted(os.listdir(os.path.join(self.folder, folder)))

    def test_colour_is_for_terminals_of_people(self):
        """A launcher gives its processes a terminal and copies what they print, also to files."""
        try:
            master, slave = pty.openpty()
        except OSError as reason:
            self.skipTest("no terminal can be made here: %s" % reason)
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        clean = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        for more, coloured in (({}, True), ({"OMPI_COMM_WORLD_SIZE": "2"}, False)):
            subprocess.run([TERSE, "codecs"], env={**clean, "TERM": "xterm", **more}, stdout=slave,
                           check=True, timeout=60)
            self.assertEqual(b"\033[1m" in os.read(master, 1 << 16), coloured)

    def test_no_input(self):
        text = self.error("encode", self.path("absent.npy"), "-o", "x", "-c", "sign")
        self.assertEqual(text, "terse: cannot open '%s': No such file or directory\n"
                         % self.path("absent.npy"))

    def test_input_is_a_folder(self):
        self.assertIn("Is a directory", self.error("inspect", self.folder))

    def test_nothing_but_the_result_is_left(self):
        self.encode(self.path("f"), "--take", self.path("left.npy"))
        self.assertEqual(self.names(), ["f", "in.npy", "left.npy"])

    def test_replaces_and_keeps_permissions(self):
        path = self.write("f", b"old")
        os.chmod(path, 0o640)
        self.encode(path)
        self.assertTrue(self.read("f").startswith(b"TRSE"))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o640)

    def test_new_file_follows_umask(self):
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        self.encode(self.path("f"))
        self.assertEqual(stat.S_IMODE(os.stat(self.path("f")).st_mode), 0o640)

    def test_symbolic_link_stays_one(self):
        self.write("real", b"old")
        os.symlink("real", self.path("link"))
        self.encode(self.path("link"))
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertTrue(self.read("real").startswith(b"TRSE"))

    def test_no_such_folder(self):
        text = self.encode(self.path("no/f"), expect=REFUSED).stderr.decode()
        self.assertIn("cannot write '%s': No such file or directory" % self.path("no/f"), text)

    def test_output_is_a_folder(self):
        os.mkdir(self.path("folder"))
        self.assertIn(b"Is a directory", self.encode(self.path("folder"), expect=REFUSED).stderr)

    def test_old_output_survives_a_refusal(self):
        path = self.write("f", b"old")
        bad = self.write("bad.npy", npy([float("nan")]))
        self.terse("encode", bad, "-o", path, "-c", "sign", expect=REFUSED)
        self.terse("decode", self.input, "-o", path, expect=REFUSED)
        self.assertEqual(self.read("f"), b"old")
        self.assertEqual(self.names(), ["bad.npy", "f", "in.npy"])

    def test_both_outputs_or_none(self):
        path = self.write("f", b"old")
        self.encode(path, "--take", self.path("no/left.npy"), expect=REFUSED)
        self.encode(path, "--take", "/dev/full", expect=MACHINE)
        self.assertEqual(self.read("f"), b"old")
        self.assertEqual(self.names(), ["f", "in.npy"])

    def test_disk_full(self):
        text = self.encode("/dev/full", expect=MACHINE).stderr.decode()
        self.assertIn("cannot write '/dev/full': No space left on device", text)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_disk_full_on_standard_output(self):
        with open("/dev/full", "wb") as full:
            self.encode("-", expect=MACHINE, stdout=full)
            self.terse("codecs", expect=MACHINE, stdout=full)
            self.terse("info", "--json", expect=MACHINE, stdout=full)

    def test_file_size_limit(self):
        """The write fails part of the way: the old file stays, the temporary one goes."""
        import resource
        import signal
        import subprocess
        from support import TERSE
        path = self.write("out.npy", b"old")
        self.encode(self.path("f"))

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        done = subprocess.run([TERSE, "decode", self.path("f"), "-o", path], preexec_fn=limit,
                              stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, MACHINE, done.stderr)
        self.assertIn(b"File too large", done.stderr)
        self.assertEqual(self.read("out.npy"), b"old")
        self.assertEqual(self.names(), ["f", "in.npy", "out.npy"])

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_folder_without_permission(self):
        os.mkdir(self.path("closed"), 0o500)
        self.assertIn(b"Permission denied", self.encode(self.path("closed/f"),
                                                        expect=REFUSED).stderr)

    def test_input_may_be_the_output(self):
        self.terse("encode", self.input, "-o", self.input, "-c", "sign", expect=OK)
        self.assertTrue(self.read("in.npy").startswith(b"TRSE"))


if __name__ == "__main__":
    unittest.main()
