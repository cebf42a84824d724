"""From the version before the last change of the CRD to this one and back, CRD and operator in either order, while
jobs run: not one pod is touched, and an old job's trainers, of the old image, are the new operator's to follow and to
replace.

Operator and trainer of that version are built first, in an hour at most. ccache has what both versions have in common,
so that this takes minutes if few headers have changed; from nothing, it takes as long as `make programs`."""
import os
import shutil
import subprocess

from cluster import BASE_IMAGE, CRD, MANIFESTS, OPERATOR, OUT, ON_CONTROL_PLANE, ROOT, SYSTEM
from job import Job, make_namespace, program_job, training_job
from scenarios.failure import next_generation
from steps import Failure, expect

NAMESPACE = "e2e-upgrade"
SOURCES = OUT / "previous"
TAG = "previous"
PREVIOUS_OPERATOR, PREVIOUS_TRAINER = f"lockstep-operator:{TAG}", f"lockstep-trainer:{TAG}"
UNTOUCHED_SECONDS = 12  # more than the operator takes to look at every job again


def run(cluster):
    steps = cluster.steps
    with steps.step("the previous version's operator and trainer are built", 3600):
        commit = build_previous(cluster)
    steps.note(f"upgraded from {commit}")
    with steps.step("onto the nodes, and installed", 300):
        cluster.load_images(PREVIOUS_OPERATOR, PREVIOUS_TRAINER)
        cluster.uninstall()
        install_crd(cluster, previous=True)
        install_operator(cluster, previous=True)
        make_namespace(cluster, NAMESPACE)
    jobs = [start(cluster, training_job("old")),
            start(cluster, program_job("own", "sleep 900", workers=2))]
    for first, second in ((install_crd, install_operator), (install_operator, install_crd)):
        change(cluster, first, jobs, previous=False)
        change(cluster, second, jobs, previous=False)
        if len(jobs) == 2:
            replace_an_old_trainer(jobs[0])
            jobs.append(start(cluster, training_job("new")))
        change(cluster, first, jobs, previous=True)
        change(cluster, second, jobs, previous=True)
    with steps.step("nobody was restarted", 30):
        for job in jobs:
            expect_first_attempt(job)
    with steps.step("both at this version again", 120):
        install_crd(cluster, previous=False)
        install_operator(cluster, previous=False)
    with steps.step("the training jobs go on, and the operator sees it", 60):
        for job in jobs:
            if job.name != "own":
                job.await_step_beyond(job.step())
                expect_first_attempt(job)


def clean_up(cluster):
    try:
        cluster.remove(("namespace", NAMESPACE))
    finally:
        cluster.uninstall()
        cluster.install()


def build_previous(cluster):
    """The commit, of which there are images with the tag `previous` and a tree in SOURCES."""
    commit = os.environ.get("E2E_PREVIOUS") or previous_commit(cluster)
    commit = cluster.call("git", "rev-parse", "--short", commit)
    # From nothing: its files are as old as the commit, and what an earlier run built of another one may be newer.
    # ccache has what that one's had in common.
    shutil.rmtree(SOURCES, ignore_errors=True)
    SOURCES.mkdir(parents=True)
    archive = SOURCES.with_suffix(".tar")
    cluster.call("git", "archive", "-o", archive, commit)
    cluster.call("tar", "-x", "-f", archive, "-C", SOURCES)
    archive.unlink()
    programs = ("lockstep", "lockstep-operator", "lockstep-trainer")
    cluster.call(SOURCES / "tools/build", "release", os.cpu_count(), *programs, quiet=False)
    # The base is named, because that commit's default may be of another release than this machine.
    cluster.call("env", f"BASE_IMAGE={BASE_IMAGE}", "IMAGE_PREFIX=", SOURCES / "tools/images", "--tag", TAG,
                 "operator", "trainer")
    return commit


def previous_commit(cluster):
    """The one before the last change of the CRD. Those whose CRD the API server does not take were never installed
    anywhere, and are passed over."""
    path = CRD.relative_to(ROOT)
    for commit in cluster.call("git", "log", "--format=%H", "--first-parent", "--", path).split():
        try:
            cluster.kubectl("create", "--dry-run=server", "-f", "-",
                            stdin=cluster.call("git", "show", f"{commit}^:{path}"))
        except subprocess.CalledProcessError as error:
            if "is invalid" in error.stderr:
                cluster.steps.say(f"the CRD before {commit} is one that the API server does not take")
                continue
            if "AlreadyExists" not in error.stderr:  # which is only said of a valid one
                raise
        return f"{commit}^"
    raise Failure("found no commit whose CRD the API server takes, expected one before the last change of the CRD")


def start(cluster, manifest):
    job = Job(cluster, NAMESPACE, manifest["metadata"]["name"])
    with cluster.steps.step(f"the job {job.name} runs", 180):
        job.apply(manifest)
        job.await_state("Running")
        if "training" in manifest["spec"]:
            job.await_training(f"{job.name}-worker-0")
    return job


def tree(previous):
    return SOURCES if previous else ROOT


def install_crd(cluster, previous):
    cluster.kubectl("apply", "-f", tree(previous) / CRD.relative_to(ROOT))


def install_operator(cluster, previous):
    """All of manifests/default but the CRD."""
    objects = cluster.objects_of(tree(previous) / MANIFESTS.relative_to(ROOT))
    deployment = next(one for one in objects if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    pod.update(ON_CONTROL_PLANE)
    if previous:
        pod["containers"][0]["image"] = PREVIOUS_OPERATOR
        pod["containers"][0]["args"].append(f"--trainer-image={PREVIOUS_TRAINER}")
    cluster.apply(*(one for one in objects if one["kind"] != "CustomResourceDefinition"))
    cluster.wait_for_operator()


def replace_an_old_trainer(job):
    """Of a job that began before the upgrade. Its steps are in the memory of the pod that stays."""
    stays, lost = (f"{job.name}-worker-{index}" for index in (0, 1))
    with job.steps.step("a pod of the old job is lost: its successor is an old trainer, too, and training goes on", 120):
        job.await_step_beyond(job.step())
        next_generation(job, stays, lambda: job.kubectl("delete", "pod", lost, "--wait=false"),
                        "a lost pod of the previous version")
        for name, pod in job.pods().items():
            image = pod["spec"]["containers"][0]["image"]
            expect(image == PREVIOUS_TRAINER, f"{name} of the image {PREVIOUS_TRAINER}", image)
        job.await_step_beyond(job.step())
        job.steps.until("one disruption", job.restarts, lambda restarts: restarts == (0, 1))


def expect_first_attempt(job):
    """And no restart, but of the pod that `replace_an_old_trainer` has deleted."""
    expected = (0, 1) if job.name == "old" else (0, 0)
    expect(job.restarts() == expected and job.status().get("attempt", 0) == 0,
           f"{job.name}: restarts {expected}, the first attempt", job.status())


def change(cluster, install, jobs, previous):
    """One part to another version; nobody's pods are touched then, nor once the operator has looked."""
    part = "CRD" if install is install_crd else "operator"
    way = "back" if previous else "up"
    with cluster.steps.step(f"{part} {way}: not one pod is touched", 120):
        before = [job.lives() for job in jobs]
        install(cluster, previous)
        cluster.kubectl("-n", SYSTEM, "wait", OPERATOR, "--for=condition=Available", "--timeout=60s")
        # It is ready before it leads, and looks at no job until then.
        new = cluster.operator_pod()["metadata"]["name"]
        cluster.steps.until(f"that {new} leads", cluster.leader, lambda found: found.rpartition("_")[0] == new)
        cluster.steps.stays("the same pods, not restarted", lambda: [job.lives() for job in jobs],
                            lambda found: found == before, UNTOUCHED_SECONDS)
        for job in jobs:
            status = job.status()
            expect(status["state"] == "Running", f"{job.name} Running", status)
