"""A kind cluster of this machine, and Lockstep on it, as the scenarios share them."""
import fcntl
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

from steps import PATIENCE, Failure, expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "e2e"
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "release" / "bin"))
# A Docker engine has one cluster of a name, whichever checkout asks.
NAME = os.environ.get("E2E_CLUSTER") or f"lockstep-e2e-{hashlib.sha256(bytes(ROOT)).hexdigest()[:6]}"
CRD = ROOT / "api" / "crd" / "trainingjobs.yaml"
MANIFESTS = ROOT / "manifests" / "default"
SYSTEM = "lockstep-system"
OPERATOR = "deployment/lockstep-operator"
LEASE = "lockstep-operator"
OF_IMAGE = "e2e.lockstep.dev/image"  # annotation of the Deployment: the image that its pods were started from
CLUSTER_SH = ROOT / "tools/kube/cluster.sh"
BASE_IMAGE = os.environ.get("BASE_IMAGE") or subprocess.run(
    [ROOT / "tools/kube/base-image.sh", "name"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
LOCKS = (OUT / "lock", pathlib.Path(tempfile.gettempdir(), f"{NAME}.lock"))
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine())
WORKERS = 3  # a job of two has its pods apart, and there is a node for a successor
SHARED = OUT / "shared"  # which every node has as /shared: as good as a network's file system
SHARED_ON_NODE = "/shared"
REMOVAL_SECONDS = 80  # a trainer may take 30 to end
EXPORT_SECONDS = 60  # of the nodes' logs

VERSION = re.search(r"^project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(),
                    re.MULTILINE).group(1)
TRAINER_IMAGE = f"lockstep-trainer:{VERSION}"
OPERATOR_IMAGE = f"lockstep-operator:{VERSION}"


class Cluster:
    def __init__(self, steps):
        self.steps = steps
        self.locks = []
        self.kept = False  # from an earlier run, with whatever that has left on it
        OUT.mkdir(parents=True, exist_ok=True)
        SHARED.mkdir(exist_ok=True)
        # A file of its own: the user's current context stays what it was.
        self.kubeconfig = OUT / "kubeconfig"
        self.env = dict(os.environ, KUBECONFIG=str(self.kubeconfig))
        self.built = pathlib.Path(subprocess.run(
            [ROOT / "tools/kube/control-plane.sh", "where"], check=True, text=True,
            stdout=subprocess.PIPE).stdout.strip())

    def lock(self):
        """For as long as this process lives: nobody else uses this checkout's folder or the cluster of this name."""
        for path in LOCKS:
            try:
                file = path.open("a")
            except OSError as error:  # another user's, say
                raise Failure(f"cannot open {path}, expected a file to lock: {error.strerror}") from None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise Failure(f"found {path} locked by another run, expected it free: wait for that one"
                              " (another checkout can run beside it)") from None
            self.locks.append(file)

    # Programs. Each ends with the step that it is started in.

    def call(self, *command, quiet=True, check=True, stdin=None):
        """What it printed. Of a program that fails, a subprocess.CalledProcessError."""
        result = subprocess.run(
            list(map(str, command)), env=self.env, cwd=ROOT, text=True, check=check,
            timeout=self.steps.left(), input="" if stdin is None else stdin,
            stdout=subprocess.PIPE if quiet else None, stderr=subprocess.PIPE if quiet else None)
        return (result.stdout or "").strip()

    def program(self, name):
        """The one that tools/kube built, else the PATH's."""
        built = self.built / name
        found = str(built) if built.exists() else shutil.which(name)
        if found is None:
            raise Failure(f"found no {name}: tools/kube/control-plane.sh {name} builds it")
        return found

    def kubectl(self, *arguments, **options):
        return self.call(self.program("kubectl"), "--context", f"kind-{NAME}", *arguments, **options)

    def refused(self, *arguments, **options):
        """What kubectl says of a command that must fail."""
        try:
            said = self.kubectl(*arguments, **options)
        except subprocess.CalledProcessError as error:
            return error.stderr
        raise Failure(f"kubectl {' '.join(map(str, arguments))}: found {said!r}, "
                      "expected that it is refused")

    def lockstep(self, *arguments):
        return self.call(BIN / "lockstep", *arguments, "--kubeconfig", self.kubeconfig, "--context",
                         f"kind-{NAME}")

    # Objects.

    def items(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]

    def find(self, kind, name, *arguments):
        """None if there is no such object."""
        found = self.kubectl("get", kind, name, *arguments, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found else None

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-",
                     stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def remove(self, *objects):
        """`kubectl delete` of each (kind, name or options), whatever becomes of those before it. Raises the first
        failure at the end."""
        failures = []
        for arguments in objects:
            try:
                self.kubectl("delete", *arguments, "--ignore-not-found", f"--timeout={REMOVAL_SECONDS * PATIENCE:.0f}s")
            except subprocess.CalledProcessError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def objects_of(self, kustomization):
        """What `kubectl apply -k` would send."""
        printed = self.kubectl("create", "--dry-run=client", "-o", "json", "-k", kustomization)
        objects, decoder, start = [], json.JSONDecoder(), 0
        while start < len(printed):
            found, start = decoder.raw_decode(printed, start)
            objects += found["items"] if found["kind"] == "List" else [found]
            start = re.compile(r"\s*").match(printed, start).end()
        return objects

    # The cluster.

    def start(self):
        """Creates it, or takes up the one that this checkout kept, if it is as a new one would be. One by the same
        name that this checkout knows nothing of has another's state and another's shared folder: it is deleted."""
        self.call(ROOT / "tools/kube/docker-engine.sh", quiet=False)
        known = self.call(self.program("kubectl"), "config", "get-contexts", "-o", "name").splitlines()
        self.kept = f"kind-{NAME}" in known and self.fits()
        if self.kept:
            self.wake()
        else:
            self.stop()
        self.env["KIND_SHARED_DIR"] = str(SHARED)
        self.call(CLUSTER_SH, "create", NAME, WORKERS, quiet=False)
        if self.kept:
            self.kubectl("uncordon", *self.workers())
            self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")

    def fits(self):
        """Whether its nodes are of this node image, and as many."""
        try:
            self.call(CLUSTER_SH, "fits", NAME, WORKERS)
            return True
        except subprocess.CalledProcessError:
            return False

    def wake(self):
        """The nodes that a run which was killed has paused."""
        paused = self.call("docker", "ps", "--quiet", "--filter", "status=paused",
                           "--filter", f"label=io.x-k8s.kind.cluster={NAME}").split()
        if paused:
            self.call("docker", "unpause", *paused)

    def stop(self):
        self.call(CLUSTER_SH, "down", NAME)

    def workers(self):
        return [node["metadata"]["name"] for node in self.items("nodes")
                if "node-role.kubernetes.io/control-plane" not in node["metadata"]["labels"]]

    def readiness(self, node):
        """Its condition Ready."""
        conditions = self.find("node", node)["status"]["conditions"]
        return next(one for one in conditions if one["type"] == "Ready")

    def is_ready(self, node):
        return self.readiness(node)["status"] == "True"

    def load_images(self, *images, nodes=()):
        """Onto these nodes, else all."""
        chosen = ["--nodes", ",".join(nodes)] if nodes else []
        self.call(self.program("kind"), "load", "docker-image", "--name", NAME, *chosen, *images)

    def load_own_images(self):
        """The operator's and the trainer's that tools/images has made here. Their tags are the engine's: another
        checkout may have put others there."""
        self.load_images(OPERATOR_IMAGE, TRAINER_IMAGE)
        for image in (OPERATOR_IMAGE, TRAINER_IMAGE):
            name = image.removeprefix("lockstep-").partition(":")[0]
            made = ROOT / "build/images" / name / f"layers-{ARCH}"
            found = self.call("docker", "image", "inspect", "-f", "{{json .RootFS.Layers}}", image)
            expected = made.read_text().strip() if made.exists() else "those of an image that was made here"
            expect(found == expected, f"{image} with the layers {expected}: tools/images makes it", found)

    def has_image(self, node, image):
        found = self.call("docker", "exec", node, "ctr", "-n", "k8s.io", "images", "ls", "-q")
        return any(name.endswith(f"/{image}") for name in found.splitlines())

    def manifest(self, path):
        """The one object of a file."""
        return json.loads(self.kubectl("create", "--dry-run=client", "-o", "json", "-f", path))

    # Lockstep.

    def install(self):
        """`kubectl apply -k manifests/default`; does nothing where it has been done, but starts an operator of another
        image again: each build has the same tag, so that the Deployment stays as it was."""
        image = self.call("docker", "image", "inspect", "-f", "{{.Id}}", OPERATOR_IMAGE)
        before = self.find(*OPERATOR.split("/"), "-n", SYSTEM)
        self.kubectl("apply", "-k", MANIFESTS)
        if before and before["metadata"].get("annotations", {}).get(OF_IMAGE) != image:
            self.kubectl("-n", SYSTEM, "rollout", "restart", OPERATOR)
        self.kubectl("-n", SYSTEM, "annotate", "--overwrite", OPERATOR, f"{OF_IMAGE}={image}")
        self.wait_for_operator()

    def wait_for_operator(self):
        self.kubectl("-n", SYSTEM, "rollout", "status", OPERATOR, f"--timeout={self.steps.left():.0f}s")

    def put_operator_on_the_control_plane(self):
        """Where no scenario stops the node. It stays there for the scenarios that follow."""
        self.kubectl("-n", SYSTEM, "patch", OPERATOR, "--type=merge", "-p", json.dumps(
            {"spec": {"template": {"spec": ON_CONTROL_PLANE}}}))
        self.wait_for_operator()

    def uninstall(self):
        """All of manifests/default; jobs go with the CRD."""
        self.kubectl("delete", "--ignore-not-found", "-k", MANIFESTS,
                     f"--timeout={self.steps.left():.0f}s")

    def operator_pods(self):
        """Those that are not being deleted."""
        return [pod for pod in self.items("-n", SYSTEM, "pods", "-l", "app.kubernetes.io/component=operator")
                if "deletionTimestamp" not in pod["metadata"]]

    def operator_pod(self):
        pods = self.operator_pods()
        if len(pods) != 1:
            raise Failure(f"found {len(pods)} pods of the operator, expected one")
        return pods[0]

    def leader(self):
        """The name of the pod whose operator leads, and "_RANDOM", another one each time that it starts; "" while
        nobody leads."""
        lease = self.find("lease", LEASE, "-n", SYSTEM) or {"spec": {}}
        return lease["spec"].get("holderIdentity", "")

    def collect(self, folder):
        """All that tells why something failed, whatever of it can be had."""
        wanted = {
            "nodes.txt": ["get", "nodes", "-o", "wide"],
            "pods.txt": ["get", "pods", "-A", "-o", "wide"],
            "pods-described.txt": ["describe", "pods", "-A"],
            "pods.yaml": ["get", "pods", "-A", "-o", "yaml"],
            "jobs.yaml": ["get", "tj", "-A", "-o", "yaml"],
            "leases.yaml": ["get", "leases", "-A", "-o", "yaml"],
            "events.txt": ["get", "events", "-A", "--sort-by=.lastTimestamp"],
            "operator.log": ["logs", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator",
                             "--prefix", "--tail=-1", "--ignore-errors"],
            "operator-before.log": ["logs", "-n", SYSTEM, OPERATOR, "--previous"],
        }
        folder.mkdir(parents=True, exist_ok=True)
        with self.steps.step(f"what tells why, into {folder.relative_to(ROOT)}", 180):
            # The nodes' journals first: they tell of an API server that does not answer.
            self.call("timeout", EXPORT_SECONDS, self.program("kind"), "export", "logs", "--name", NAME, folder / "nodes",
                      check=False)
            for name, arguments in wanted.items():
                try:
                    found = self.kubectl("--request-timeout=20s", *arguments, check=False)
                except (subprocess.TimeoutExpired, OSError) as error:
                    found = str(error)
                (folder / name).write_text(found + "\n")
            for pod in self.items("pods", "-A", "-l", "training.lockstep.dev/job-name"):
                where, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
                found = self.kubectl("--request-timeout=20s", "logs", "-n", where, name, check=False)
                (folder / f"{where}.{name}.log").write_text(found + "\n")


ON_CONTROL_PLANE = {
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
}
