"""What people do with a job: suspend, resume, edit, delete, replace it; and what its times do."""
import time

from job import NAP, Job, make_namespace, make_shared_claim, program_job, seconds_of, training_job
from steps import expect

NAMESPACE = "e2e-lifecycle"
CLAIM = "checkpoints"
NAMESAKE_SECONDS = 5  # from the end of the old job's pods to the new one's


def run(cluster):
    steps = cluster.steps
    with steps.step("the operator, and a namespace for restricted pods", 120):
        cluster.install()
        make_namespace(cluster, NAMESPACE)
        saved = make_shared_claim(cluster, NAMESPACE, CLAIM)
    suspend_and_edit(cluster, saved)
    delete(cluster)
    namesake(cluster)
    time_to_live(cluster)
    deadline(cluster)


def clean_up(cluster):
    cluster.remove(("namespace", NAMESPACE), ("pv", f"{NAMESPACE}-{CLAIM}"))


def suspend_and_edit(cluster, saved):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "paused")
    with steps.step("a job trains", 120):
        job.apply(training_job("paused", claim=CLAIM))
        job.await_training("paused-worker-1")
        job.await_step_beyond(0)
    with steps.step("an edit of its steps is refused while it runs", 30):
        edit = '{"spec":{"training":{"steps":100}}}'
        said = cluster.refused(*job.where, "patch", "tj", "paused", "--type=merge", "-p", edit)
        expect("spec.training" in said, "the field's name", said)
    with steps.step("suspended: its pods end, after a checkpoint", 90):
        job.patch({"suspend": True})
        job.await_condition("Suspended", "True", "Suspended")
        steps.until("no pods", job.uids, lambda uids: not uids)
        expect(job.condition("Running")["status"] == "False", "not Running", job.status())
        step = latest_step(saved)
    with steps.step("edited while it is suspended, and resumed: on from the checkpoint", 120):
        last = step + 200
        job.patch({"training": {"steps": last}})
        job.patch({"suspend": False})
        first = job.await_training("paused-worker-0")
        expect(first["step"] == step + 1, f"the step after {step}, which was saved", first)
        job.await_condition("Suspended", "False", "Resumed")
    with steps.step("to its new end", 180):
        job.await_state("Succeeded")
        steps.until(f"step {last}", job.step, lambda found: found == last)
        expect(job.restarts() == (0, 0), "no restart", job.restarts())
    with steps.step("the job is deleted", 60):
        job.delete()


def latest_step(folder):
    """Of the checkpoints there."""
    return max(int(path.name[5:13]) for path in folder.glob("step-*"))


def delete(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "gone")
    with steps.step("a deleted job takes along all that was made for it", 120):
        job.apply(training_job("gone"))
        job.await_state("Running")
        kinds = "pods,services,secrets,networkpolicies"
        made = {item["kind"] for item in cluster.items(*job.where, kinds)}
        expect(made >= {"Pod", "Service", "Secret", "NetworkPolicy"}, kinds, sorted(made))
        job.delete()
        steps.until("nothing", lambda: [item["metadata"]["name"] for item in
                                        cluster.items(*job.where, kinds)], lambda left: not left)


def namesake(cluster):
    """Deleted without waiting and applied again at once, while the old pods still end."""
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "again")
    spec = program_job("again", NAP, workers=2)
    with steps.step("a job runs", 90):
        job.apply(spec)
        job.await_state("Running")
        old = set(job.uids().values())
    with steps.step("its namesake, applied at once, has its pods", 60):
        job.delete(wait=False)
        job.apply(spec)
        steps.until("the old pods' end", lambda: set(job.uids().values()) & old,
                    lambda left: not left, every=0.1)
        ended = time.monotonic()
        steps.until("two new pods", job.uids, lambda uids: len(uids) == 2, every=0.1)
        steps.within(NAMESAKE_SECONDS, time.monotonic() - ended,
                     "from the old pods' end to the namesake's pods")
    with steps.step("and runs", 60):
        job.await_state("Running")
        job.delete()


def time_to_live(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "short")
    with steps.step("a job of one second, with ttlSecondsAfterFinished 5, is gone", 90):
        job.apply(program_job("short", "sleep 1", runPolicy={"ttlSecondsAfterFinished": 5}))
        ended = seconds_of(job.await_state("Succeeded")["completionTime"])
        steps.until("no job", job.found, lambda found: found is None)
        lived = time.time() - ended
        expect(lived >= 4, "that it lives 5 s beyond its end", lived)
        steps.until("no pods", job.uids, lambda uids: not uids)
        steps.note(f"ttlSecondsAfterFinished 5: gone {lived:.1f} s after its end")


def deadline(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "late")
    with steps.step("a job that outlasts activeDeadlineSeconds 10 fails", 90):
        job.apply(program_job("late", NAP, runPolicy={"activeDeadlineSeconds": 10}))
        failed = job.await_condition("Failed", "True", "DeadlineExceeded")
        check_lived(10, job.status()["startTime"], failed)
        steps.until("no pods", job.uids, lambda uids: not uids)
        job.delete()
    job = Job(cluster, NAMESPACE, "huge")
    with steps.step("a job that no node can hold fails after pendingDeadlineSeconds 5, and says why", 90):
        job.apply(program_job("huge", NAP, memory="900Ti", runPolicy={"pendingDeadlineSeconds": 5}))
        failed = job.await_condition("Failed", "True", "PendingDeadlineExceeded")
        expect("Insufficient memory" in failed["message"], "what its pod waited for", failed["message"])
        check_lived(5, job.status()["startTime"], failed)
        steps.until("no pods", job.uids, lambda uids: not uids)
        job.delete()


def check_lived(seconds, start, failed):
    """Both times are cut to whole seconds."""
    lived = seconds_of(failed["lastTransitionTime"]) - seconds_of(start)
    expect(lived >= seconds - 1, f"that it fails {seconds} s after its start, {start}", failed)
