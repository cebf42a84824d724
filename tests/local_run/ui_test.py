"""`lockstep ui` beside a `lockstep run`, in a real browser.

LOCKSTEP_UI_PICTURE=FILE runs examples/quickstart.yaml and saves the page as a picture, instead of the tests."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import browser
from local_run import LOCKSTEP, SLOWNESS, Run, write_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = os.environ.get("LOCKSTEP_UI_PICTURE")
HOSTILE = "\x1b]0;title\x07\x1b[31m<img src=x onerror='document.title=1'><script>document.title=2</script>\x1b[0m\u202eend"
SHOWN = "<img src=x onerror='document.title=1'><script>document.title=2</script>?end"


class Ui:
    """A `lockstep ui` of work directories."""

    def __init__(self, folder, *args):
        self.process = subprocess.Popen([str(LOCKSTEP), "ui", "--work-dir", str(folder), "--output", "json", *args],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.base, self.token = self.url.split("/#")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def ask(self, path, token=None, method="GET", **headers):
        """(status, headers, body)"""
        request = urllib.request.Request(self.base + path, method=method, headers=headers)
        request.add_header("Authorization", f"Bearer {self.token if token is None else token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()


class UiTest(unittest.TestCase):
    """A run and the server of its page."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs = pathlib.Path(folder.name) / "runs"
        self.runs.mkdir()
        self.work_dir = self.runs / "small"
        self.run_ = Run(write_job(folder.name, epochs=1000), self.work_dir)
        self.addCleanup(self.run_.kill)
        self.run_.wait_for_checkpoint()

    def start(self, folder):
        ui = Ui(folder)
        self.addCleanup(ui.end)
        return ui

    def write_log_line(self, line, name="0.log"):
        log = next(self.work_dir.glob("logs/*worker-1")) / name
        with log.open("a") as file:
            file.write(line + "\n")


@unittest.skipUnless(browser.PROGRAM, "there is no chromium on the PATH: tools/setup test installs it")
class BrowserTest(UiTest):
    def test_a_run_in_a_browser(self):
        ui = self.start(self.runs)
        with browser.Browser() as page:
            page.open(ui.url)
            limit = 60 * SLOWNESS
            page.wait_for("document.querySelector('#jobs button .name')?.textContent.endsWith('runs/small')", limit)
            page.wait_for("Number(document.querySelector('#loss svg')?.dataset.points) > 3", limit)
            page.wait_for("Number(document.querySelector('#rate svg')?.dataset.points) > 3", limit)
            self.assertEqual("Running", page.evaluate("document.getElementById('job-state').textContent"))
            for replica in ("worker-0", "worker-1"):
                row = (f"[...document.querySelectorAll('#replicas tr')].find(row => row.cells[0].textContent === "
                       f"'{replica}')?.innerText")
                self.assertRegex(page.wait_for(row, limit), r"local\s+0\s")
            page.wait_for("document.querySelectorAll('#ranks .bars-line').length === 2", limit)
            page.wait_for("document.querySelectorAll('#events tr').length > 1", limit)
            page.wait_for("document.querySelectorAll('#log div').length > 3", limit)

            self.write_log_line(HOSTILE)
            page.wait_for(f"[...document.querySelectorAll('#log div > span:last-child')]"
                          f".some(line => line.textContent === {json.dumps(SHOWN)})", limit)
            self.assertEqual(0, page.evaluate("document.querySelectorAll('#log img, #log script').length"))
            self.assertIn("Running", page.evaluate("document.title"))
            # Two containers of a pod have a log each, of which neither is read again for the other.
            self.write_log_line("from beside", name="0-beside.log")
            count = ("[...document.querySelectorAll('#log div')].filter(line => line.textContent.includes('worker-1 beside'"
                     " + 'from beside')).length")
            page.wait_for(f"{count} === 1", limit)
            self.write_log_line("last")
            page.wait_for("[...document.querySelectorAll('#log div')].some(line => line.textContent.endsWith('worker-1last'))", limit)
            self.assertEqual(1, page.evaluate(count))
            page.evaluate("document.getElementById('log-of').value = 'worker-0';"
                          "document.getElementById('log-of').dispatchEvent(new Event('change'))")
            page.wait_for("document.querySelectorAll('#log div').length > 3 && "
                          "!document.getElementById('log').textContent.includes('onerror')", limit)

            # On a narrow screen nothing sticks out.
            page.open(ui.url, width=360, height=740, dark=True)
            page.wait_for("document.querySelectorAll('#replicas tr').length === 3", limit)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360)

            self.run_.process.send_signal(signal.SIGINT)
            page.wait_for("document.getElementById('job-state').textContent === 'Interrupted'", limit)
            self.assertEqual([], page.faults())
            ui.process.send_signal(signal.SIGTERM)
            self.assertEqual(-signal.SIGTERM, ui.process.wait(5 * SLOWNESS))
            page.wait_for("document.getElementById('problem').textContent.includes('does not answer')", limit)
        self.run_.finish()


@unittest.skipUnless(browser.PROGRAM, "there is no chromium on the PATH: tools/setup test installs it")
class PageTest(unittest.TestCase):
    """What the page's script makes of answers that a small run does not give."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        ui = Ui(folder.name)
        self.addCleanup(ui.end)
        self.page = self.enterContext(browser.Browser())
        self.page.open(ui.url)
        self.page.wait_for("document.getElementById('no-jobs')?.textContent === 'There are no jobs.'", 60 * SLOWNESS)

    def test_a_curve_of_one_value_is_drawn_whatever_its_sign(self):
        for value in (-5, 0, 5):
            self.assertIn("<polyline", self.draw(value))
        self.assertEqual([], self.page.faults())

    def draw(self, *values):
        points = [[1000 * i, value] for i, value in enumerate(values)]
        html = self.page.evaluate(f"showCurve('loss', 'Loss', '', {json.dumps(points)}), document.getElementById('loss').innerHTML")
        self.assertNotIn("NaN", html)
        self.assertNotIn("Infinity", html)
        return html

    def test_a_curve_of_any_numbers_is_drawn_and_ends(self):
        for values in ([-1e17], [-3.4028235e38], [-1, -0.9999999999999999], [-1e17, -1e17 + 16], [1e17, 1e17 + 16],
                       [-3e38, 3e38], [5e-324], [-5e-324], [1e-300, 1e299], [1, 1e4]):
            html = self.draw(*values)
            self.assertIn("<polyline", html)
            self.assertIn('class="grid"', html)
        self.assertIn("no value yet", self.draw(1.7e308))
        self.assertEqual([], self.page.faults())

    def test_the_focus_stays_on_its_job_when_the_list_changes(self):
        focused = self.page.evaluate("""(() => {
            const show = (names) => showJobs({ source: "", error: null,
              jobs: names.map((name) => ({ namespace: "n", name, state: "Running", step: 0, total_steps: 0 })) });
            show(["a", "b", "c"]);
            document.querySelectorAll("#jobs button")[1].focus();
            show(["new", "a", "b", "c"]);
            return document.activeElement.querySelector(".name")?.textContent; })()""")
        self.assertEqual("n / b", focused)

    def add_run(self, lines):
        """A folder as a `lockstep run` leaves it."""
        logs = self.folder / "r/logs/j-worker-0"
        logs.mkdir(parents=True)
        (logs / "0.log").write_text("".join(f"line {i}\n" for i in range(lines)))
        (self.folder / "r/.lock").write_text("0")

    def set_hidden(self, hidden):
        value = str(hidden).lower()
        self.page.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {value}, configurable: true }}),"
                           "document.dispatchEvent(new Event('visibilitychange')), 0")

    def test_the_link_to_the_job_keeps_the_secret(self):
        self.add_run(1)
        self.page.wait_for("!document.getElementById('main').hidden", 60 * SLOWNESS)
        before = self.page.evaluate("location.hash")
        self.assertIn("job=", before)
        self.page.evaluate("document.querySelector('.skip').click(), 0")
        self.assertEqual((before, "main"), (self.page.evaluate("location.hash"), self.page.evaluate("document.activeElement.id")))

    def test_the_log_of_any_replica_can_be_chosen(self):
        options = self.page.evaluate("""
            showReplicas({ rows: [], names: ["worker-0", "worker-1"], running: 2, omitted: 0 }),
            [...document.getElementById("log-of").options].map((option) => option.value)""")
        self.assertEqual(["", "worker-0", "worker-1"], options)

    def test_it_says_that_replicas_cannot_be_read(self):
        notes = self.page.evaluate("""
            showReplicas({ rows: [], names: [], running: 0, omitted: 0, error: "403 Forbidden" }),
            showRanks({ ranks: [], unread: [], ranks_omitted: 0, unread_omitted: 0 }, false),
            ["replicas-note", "ranks-note"].map((id) => document.getElementById(id).textContent)""")
        self.assertEqual(["The replicas cannot be read: 403 Forbidden", ""], notes)

    def test_when_the_chosen_replica_goes_away_the_log_of_all_is_shown_from_its_begin(self):
        after = self.page.evaluate("""(() => {
            const show = (...names) => showReplicas({ rows: [], names, running: names.length, omitted: 0 });
            const line = { start: 0, next: 30, more: false, read: true, error: null, lines: [[0, "worker-1", "x"]] };
            const all = document.getElementById("log-of"), lines = () => document.querySelectorAll("#log div").length;
            show("worker-0", "worker-1");
            all.value = "worker-1";
            showLog(line, false);
            const found = [lines()];
            show("worker-0", "worker-1", "worker-2");
            found.push(all.value, lines(), log.next);
            show("worker-0");
            return [...found, all.value, lines(), log.next]; })()""")
        self.assertEqual([1, "worker-1", 1, 30, "", 0, 0], after)

    def test_a_page_that_was_hidden_for_long_shows_each_line_once(self):
        self.add_run(100)
        limit = 60 * SLOWNESS
        count = "document.querySelectorAll('#log div').length"
        self.page.wait_for(f"{count} === 100", limit)
        self.set_hidden(True)
        time.sleep(14)  # after 10 s the server has forgotten what it has read
        self.page.evaluate("window.before = log.start; 0")
        self.set_hidden(False)
        self.page.wait_for("log.start !== null && log.start !== before", limit)
        self.assertEqual(100, self.page.evaluate(count))
        self.assertEqual("line 0", self.page.evaluate("document.querySelector('#log div > span:last-child').textContent"))

    def test_a_page_that_nobody_sees_asks_for_nothing(self):
        hide = "Object.defineProperty(document, 'hidden', { value: %s, configurable: true })"
        self.page.evaluate("window.asked = 0; window.fetch_ = fetch;"
                           "window.fetch = (...all) => { ++asked; return fetch_(...all); }; 0")
        self.page.wait_for("asked > 0", 60 * SLOWNESS)
        # It is hidden while a round is in flight.
        self.page.evaluate(f"round(), {hide % 'true'}, document.dispatchEvent(new Event('visibilitychange')), 0")
        time.sleep(1 * SLOWNESS)
        asked = self.page.evaluate("asked")
        time.sleep(3 * SLOWNESS)
        self.assertEqual(asked, self.page.evaluate("asked"))
        self.page.evaluate(f"{hide % 'false'}, document.dispatchEvent(new Event('visibilitychange')), 0")
        self.page.wait_for(f"asked > {asked} + 1", 60 * SLOWNESS)

    def test_a_table_that_shows_the_same_is_not_made_anew(self):
        self.page.evaluate("""
            window.top_ = (step) => ({ ranks: [{ rank: 0, replica: "worker-0", step, step_seconds: 1, phases: null,
              straggles_by: null }], unread: [{ replica: "worker-9", why: "refused" }], ranks_omitted: 9800, unread_omitted: 1 });
            showRanks(top_(1));
            window.row = document.querySelector("#ranks tr:last-child"); 0""")
        note = self.page.evaluate("document.getElementById('ranks-note').textContent")
        self.assertIn("further ranks wait longer for others; no metrics of worker-9: refused; and of 1 other", note)
        same = "document.querySelector('#ranks tr:last-child') === row"
        self.assertTrue(self.page.evaluate(f"showRanks(top_(1)), {same}"))
        self.assertFalse(self.page.evaluate(f"showRanks(top_(2)), {same}"))


class ServerTest(UiTest):
    def test_the_server_tells_nobody_without_the_token(self):
        ui = self.start(self.work_dir)
        self.assertEqual(200, ui.ask("/")[0])
        self.assertEqual(200, ui.ask("/api/jobs")[0])
        for token in ("", ui.token[:-1], ui.token + "0", "x" * len(ui.token)):
            status, _, body = ui.ask("/api/jobs", token=token)
            self.assertEqual(401, status)
            self.assertNotIn("small", body)
        for host in ("evil.example", f"evil.example:{ui.base.rsplit(':', 1)[1]}", "127.0.0.1.evil.example", ""):
            self.assertEqual(403, ui.ask("/", Host=host)[0], host)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertEqual(405, ui.ask("/api/jobs", method=method)[0], method)
        for path in ("/", "/app.js", "/style.css", "/api/jobs", "/none"):
            _, headers, _ = ui.ask(path)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", headers["Content-Security-Policy"])
            self.assertEqual("nosniff", headers["X-Content-Type-Options"])
            self.assertNotIn("Access-Control-Allow-Origin", headers)
        # A name of a page's is no path.
        outside = self.runs.parent / "small.yaml"
        answer = ui.ask(f"/api/job?name={outside}")[2]
        deadline = time.monotonic() + 20 * SLOWNESS
        while json.loads(answer)["error"] is None and time.monotonic() < deadline:
            time.sleep(0.1)
            answer = ui.ask(f"/api/job?name={outside}")[2]
        self.assertIn("is no work directory of a run", json.loads(answer)["error"])

    def test_a_view_has_no_variables_of_pods_and_a_folder_without_one_is_shown(self):
        view = self.work_dir / "view.json"
        pods_in_view = lambda: json.loads(view.read_text())["pods"] if view.exists() else []
        self.run_.wait_for(lambda: len(pods_in_view()) == 2, "a view with both pods")
        pods = pods_in_view()
        self.assertEqual([["name"]] * 2, [list(pod["spec"]["containers"][0]) for pod in pods])
        self.assertEqual(0o600, view.stat().st_mode & 0o777)

        for name, text in (("earlier", None), ("broken", '{"job": [], "pods": 3, "events": "x", "curve": {}}')):
            (self.runs / name).mkdir()
            (self.runs / name / ".lock").write_text("0")
            if text:
                (self.runs / name / "view.json").write_text(text)
        ui = self.start(self.runs)
        states = {}
        deadline = time.monotonic() + 30 * SLOWNESS
        while len(states) < 3 and time.monotonic() < deadline:
            states = {job["name"].rsplit("/", 1)[1]: job["state"] for job in json.loads(ui.ask("/api/jobs")[2])["jobs"] or []}
            time.sleep(0.1)
        self.assertEqual({"small": "Running", "earlier": "Ended", "broken": "Ended"}, states)
        for name in ("earlier", "broken"):
            answer = {"job": None}
            while answer["job"] is None and time.monotonic() < deadline:
                answer = json.loads(ui.ask(f"/api/job?name={self.runs / name}")[2])
                time.sleep(0.1)
            self.assertEqual((None, "Ended", []), (answer["error"], answer["job"]["state"], answer["job"]["curve"]))

    def test_a_taken_port_and_a_missing_folder(self):
        ui = self.start(self.work_dir)
        port = ui.base.rsplit(":", 1)[1]
        for args, why in ((["--port", port], "is the port taken"), (["--work-dir", str(self.runs / "none")], "no such")):
            folder = [] if "--work-dir" in args else ["--work-dir", str(self.work_dir)]
            done = subprocess.run([str(LOCKSTEP), "ui", *folder, *args], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60 * SLOWNESS, check=False)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertIn(why, done.stderr)


def save_picture(path):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.mkdir("runs")
        run = Run(ROOT / "examples/quickstart.yaml", "runs/quickstart", "--set", "spec.training.epochs=40")
        ui = Ui("runs")
        try:
            run.wait_for_checkpoint(240)
            time.sleep(45 * SLOWNESS)
            with browser.Browser() as page:
                page.call("Emulation.setScrollbarsHidden", hidden=True)
                page.open(ui.url, width=1200, height=1290)
                page.wait_for("document.querySelectorAll('#ranks .bars-line').length === 2", 60)
                page.wait_for("document.querySelectorAll('#log div').length > 3", 60)
                time.sleep(3)
                page.save_picture(path)
        finally:
            ui.end()
            run.kill()


if __name__ == "__main__":
    if PICTURE:
        save_picture(os.path.abspath(PICTURE))
    else:
        unittest.main()
