"""An operator of one namespace, which has no right outside it, beside one whose jobs are nobody's."""
import json

from cluster import ROOT, SYSTEM
from job import Job, make_namespace, program_job, training_job
from steps import expect

OWN, OTHER = "e2e-namespaced", "e2e-other"
OVERLAY = ROOT / "manifests/overlays/namespaced"
ACCOUNT = f"system:serviceaccount:{OWN}:lockstep-operator"


def run(cluster):
    steps = cluster.steps
    with steps.step("the CRD alone, and two namespaces for restricted pods", 120):
        cluster.uninstall()
        cluster.kubectl("apply", "-k", ROOT / "manifests/crd")
        for name in (OWN, OTHER):
            make_namespace(cluster, name)
    with steps.step("manifests/overlays/namespaced into one of them", 120):
        cluster.apply(*(moved(one) for one in cluster.objects_of(OVERLAY)))
        cluster.kubectl("-n", OWN, "rollout", "status", "deployment/lockstep-operator",
                        f"--timeout={steps.left():.0f}s")
    own, other = Job(cluster, OWN, "mine"), Job(cluster, OTHER, "theirs")
    with steps.step("its own job trains to its end; the other namespace's has no pods", 120):
        other.apply(program_job("theirs", "exit 0"))
        own.apply(training_job("mine", steps=50))
        own.await_state("Succeeded")
        expect(not other.status() and not other.uids(), "nothing done for it", other.found())
    with steps.step("it may do nothing outside", 30):
        def may(verb, kind, namespace):
            return cluster.kubectl("auth", "can-i", verb, kind, "-n", namespace, f"--as={ACCOUNT}", check=False)
        for verb, kind in (("list", "pods"), ("create", "pods"), ("list", "trainingjobs"),
                           ("create", "secrets"), ("list", "nodes")):
            said = may(verb, kind, OTHER)
            expect(said == "no", f"no right to {verb} {kind} in {OTHER}", said)
        # An account that does not exist has no rights either.
        said = may("list", "pods", OWN)
        expect(said == "yes", f"a right to list pods in {OWN}", said)
    with steps.step("nothing of it is in the namespace of an operator for all", 30):
        found = cluster.find("namespace", SYSTEM)
        expect(found is None, f"no namespace {SYSTEM}", found)


def clean_up(cluster):
    cluster.remove(("namespace", OWN), ("namespace", OTHER))


def moved(thing):
    """As an overlay with `namespace:` would put it."""
    thing = json.loads(json.dumps(thing).replace('"namespace": "default"', f'"namespace": "{OWN}"'))
    return thing
