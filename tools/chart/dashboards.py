"""Grafana's dashboards of charts/lockstep, from which tools/gen-chart writes the JSON.

A panel is a title, what it says, a unit and its queries. In a query OPERATOR, TRAINER, DCGM and RENAMED stand
for the matchers of the dashboard's variables, and WINDOW for the range of a rate. Panels flow from left to
right in rows of 24 columns.
"""
import dataclasses
import json

ROW_WIDTH = 24
MATCHERS = {
    "OPERATOR": 'job=~"$job", instance=~"$instance"',
    "TRAINER": 'job=~"$job", instance=~"$instance", namespace=~"$namespace", trainingjob=~"$trainingjob"',
    "DCGM": 'namespace=~"$namespace", pod=~"($trainingjob)-(chief|worker|evaluator)-[0-9]+"',
    "RENAMED": 'exported_namespace=~"$namespace", exported_pod=~"($trainingjob)-(chief|worker|evaluator)-[0-9]+"',
}
OF_JOB = "namespace, trainingjob"
OF_RANK = "namespace, trainingjob, rank"
OF_STAGE = "namespace, trainingjob, stage"
STEP_PHASES = "input|compute|communication|optimizer"
OWN_PHASES = "input|compute"  # without waiting for the others, and without updates that one rank makes for all


@dataclasses.dataclass
class Panel:
    title: str
    description: str
    unit: str
    queries: list  # (expression, legend) each
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    minimum: float | None = None
    maximum: float | None = None
    links: list = dataclasses.field(default_factory=list)
    thresholds: list = dataclasses.field(default_factory=list)  # (color, from) each
    columns: dict = dataclasses.field(default_factory=dict)  # of a table: label -> heading


@dataclasses.dataclass
class Row:
    title: str


def time_rate(phases, by=OF_JOB):
    return f'sum by ({by}) (rate(lockstep_trainer_time_seconds_total{{TRAINER, phase=~"{phases}"}}[WINDOW]))'


def growth(counter):
    """Without what a series starts at, of which VictoriaMetrics' increase() counts a small value as growth."""
    return f"last_over_time({counter}{{TRAINER}}[WINDOW]) - min_over_time({counter}{{TRAINER}}[WINDOW])"


def group_size():
    """Of ranks that train together. New pods say the size that the group is to have before they are part of it; then they
    do not know the learning rate yet."""
    return "lockstep_trainer_world_size{TRAINER} > 1 and lockstep_trainer_learning_rate{TRAINER} >= 0"


def running():
    """The ranks whose time goes on. The series of a variant that has ended stay as long as others of its pod train."""
    return f"sum by ({OF_RANK}) (rate(lockstep_trainer_time_seconds_total{{TRAINER}}[WINDOW])) > 0"


def ranks():
    """How many ranks a job has, or has had in WINDOW. Variants that train independently are each a group of one."""
    return f"(max by ({OF_JOB}) ({group_size()}) or count by ({OF_JOB}) ({running()}))"


def goodput():
    return f"{time_rate(STEP_PHASES)} / {ranks()}"


def own_time_of_a_step():
    """By rank and stage, as stages of a model have different work; trainers of earlier versions do not say theirs."""
    steps = f"sum by ({OF_RANK}) (rate(lockstep_trainer_steps_total{{TRAINER}}[WINDOW]))"
    own = f"({time_rate(OWN_PHASES, OF_RANK)} / ({steps} > 0))"
    stage = "lockstep_trainer_stage{TRAINER}"
    stages = (f'group by ({OF_RANK}, stage) (count_values by ({OF_RANK}) ("stage", max by ({OF_RANK}) ({stage})))')
    return f"({own} * on ({OF_RANK}) group_left (stage) {stages} or {own} unless on ({OF_RANK}) {stage})"


def slowness():
    """As a multiple of the median rank's of its stage, or of the faster one's of two. Variants that train alone wait for
    nobody."""
    own = own_time_of_a_step()
    median = (f"(min by ({OF_STAGE}) ({own}) and count by ({OF_STAGE}) ({own}) == 2 "
              f"or quantile by ({OF_STAGE}) (0.5, {own}))")
    together = f"max by ({OF_JOB}) (lockstep_trainer_world_size{{TRAINER}}) > 1"
    ratio = f"{own} / on ({OF_STAGE}) group_left () {median}"
    return f"sum by ({OF_RANK}) ({ratio}) and on ({OF_JOB}) {together}"


def leading(metric, label=None):
    """By rank, of the leading one; of variants that train alone, each leads itself and has values of its own. Also by a
    label that only this metric has."""
    by, ignoring = (f"rank, {label}", f" ignoring ({label})") if label else ("rank", "")
    return (f'max by ({by}) ({metric}{{TRAINER}} '
            f'unless{ignoring} lockstep_trainer_world_size{{TRAINER, rank!="0"}} != 1)')


def learned(name):
    """The panel's queries of a training metric, and of the test set by replicas and by an Evaluator."""
    return [(leading(f"lockstep_trainer_{name}"), "rank {{rank}}"),
            (leading(f"lockstep_trainer_test_{name}"), "rank {{rank}}, test"),
            (f"max(lockstep_trainer_evaluator_test_{name}{{TRAINER}})", "Evaluator, test")]


def progress():
    step, total = "lockstep_trainer_step{TRAINER}", "lockstep_trainer_total_steps{TRAINER}"
    together = f"max({step} and lockstep_trainer_world_size{{TRAINER}} > 1) / max({total})"
    return f"{together} or sum({step}) / sum({total})"


# Replicas of one operator see the same; of operators with different namespaces each has jobs of its own.
BY_OPERATOR = "namespace, job"


def quantile(q, histogram, matchers, by=""):
    labels = ", ".join(filter(None, ["le", by]))
    return f"histogram_quantile({q}, sum by ({labels}) (rate({histogram}_bucket{{{matchers}}}[WINDOW])))"


def quantiles(histogram, matchers="OPERATOR", of=(0.5, 0.95)):
    return [(quantile(q, histogram, matchers), f"p{round(q * 100)}") for q in of]


def of_gpus(aggregate, metric):
    """By the pod that uses the GPU. Where Prometheus scrapes DCGM's exporter without honorLabels, `pod` is the
    exporter's own, and that one is renamed."""
    renamed = f'label_replace({metric}{{RENAMED}}, "pod", "$1", "exported_pod", "(.+)")'
    return f"{aggregate} by (pod, gpu) ({metric}{{DCGM}} or {renamed})"


TO_JOB = [{"title": "Training job ${__data.fields.trainingjob}", "url":
           "/d/lockstep-training-job?${datasource:queryparam}&var-namespace=${__data.fields.namespace}"
           "&var-trainingjob=${__data.fields.trainingjob}&${__url_time_range}"}]
JOB_COLUMNS = {"namespace": "Namespace", "trainingjob": "Training job"}

FLEET = [
    Panel("Jobs", "TrainingJobs that there are, by state, as the leading operators see them.", "short",
          [(f"sum by (state) (max by ({BY_OPERATOR}, state) (lockstep_operator_jobs{{OPERATOR}}))", "{{state}}")],
          width=12, stacked=True),
    Panel("Replicas in training", "Ranks of all jobs whose processes run, and how many seconds of each second "
          "they spend on steps: what is between the two lines is lost.", "short",
          [(f"count({running()})", "up"),
           (f'sum(rate(lockstep_trainer_time_seconds_total{{TRAINER, phase=~"{STEP_PHASES}"}}[WINDOW]))',
            "productive")], width=12),
    Panel("Goodput", "Part of the time that the ranks of a job spend on steps that are kept. Ranks that "
          "are missing count as idle.", "percentunit", [(goodput(), "{{namespace}}/{{trainingjob}}")],
          width=12, minimum=0, maximum=1),
    Panel("Samples per second", "Of all ranks of a job together.", "short",
          [(f"sum by ({OF_JOB}) (rate(lockstep_trainer_examples_total{{TRAINER}}[WINDOW]))",
            "{{namespace}}/{{trainingjob}}")], width=12),
    Panel("Failed jobs", "Jobs that have failed and have not been deleted.", "none",
          [(f'max by ({OF_JOB}) (lockstep_operator_job_status{{OPERATOR, namespace=~"$namespace", '
            'trainingjob=~"$trainingjob", state="Failed"})', "")], kind="table", links=TO_JOB,
          columns=JOB_COLUMNS),
    Panel("Stragglers now", "Ranks by the time that a step takes them without waiting for others, as a "
          "multiple of the median of their job, or stage, or of the other of two.", "short",
          [(f"topk(10, {slowness()})", "")], kind="table", links=TO_JOB,
          columns={**JOB_COLUMNS, "rank": "Rank"}),
    Panel("Jobs that lack replicas", "Jobs that have run and do not get back replicas that they require, by the time "
          "that they have waited. Their state is still Running or Restarting.", "s",
          [(f'time() - max by ({OF_JOB}) (lockstep_operator_job_lacks_replicas_timestamp_seconds{{OPERATOR, '
            'namespace=~"$namespace", trainingjob=~"$trainingjob"})', "")], kind="table", links=TO_JOB,
          columns=JOB_COLUMNS),
    Panel("Failures", "Jobs that failed, by the reason of their condition.", "short",
          [("sum by (reason) (increase(lockstep_operator_jobs_failed_total{OPERATOR}[WINDOW]))",
            "{{reason}}")], stacked=True),
    Panel("Restarts", "Restarts of jobs: `application` is charged to backoffLimit, `disruption` and `evaluator` are not.",
          "short", [("sum by (cause) (increase(lockstep_operator_job_restarts_total{OPERATOR}[WINDOW]))",
                     "{{cause}}")], stacked=True),
    Panel("Time to running", "From a job's start to all of its replicas running.", "s",
          quantiles("lockstep_operator_job_time_to_running_seconds")),
    Panel("Recovery", "From the loss of replicas to as many being ready again; restarts inside a pod and by edits are "
          "left out.", "s",
          quantiles("lockstep_operator_job_recovery_duration_seconds")),
    Panel("Resizes", "Changes of the number of workers that the groups of running jobs have followed, without a "
          "restart.", "short",
          [("sum by (direction) (increase(lockstep_operator_job_resizes_total{OPERATOR}[WINDOW]))",
            "{{direction}}")], stacked=True),
    Panel("Jobs to scrape", "Running jobs of the bundled trainer that have their replicas, and jobs whose pods Prometheus "
          "looks for. If it looks for none, panels about trainers are empty, and most alerts about jobs cannot fire.",
          "short", [(f"sum(max by ({BY_OPERATOR}) (lockstep_operator_jobs_training{{OPERATOR}}))", "training"),
                    (f"count(group by ({OF_JOB}) (up{{TRAINER}})) or vector(0)", "looked for")],
          thresholds=[("red", None), ("green", 1)]),
]

TRAINING_JOB = [
    Panel("State", "The condition of the job that holds.", "string",
          [('max by (state) (lockstep_operator_job_status{OPERATOR, namespace=~"$namespace", '
            'trainingjob=~"$trainingjob"})', "{{state}}")], kind="stat", width=4, height=4),
    Panel("Progress", "Steps done, of those that the job is to do; of all variants together whose pods are there.",
          "percentunit", [(progress(), "")], kind="stat", width=4, height=4),
    Panel("Time left", "At the speed of the latest steps; of the variant that takes longest.", "s",
          [(f"max({leading('lockstep_trainer_remaining_seconds')})", "")], kind="stat", width=4, height=4),
    Panel("Goodput", "Part of the time that the ranks spend on steps that are kept.", "percentunit",
          [(goodput(), "")], kind="stat", width=4, height=4,
          thresholds=[("red", None), ("orange", 0.5), ("green", 0.8)]),
    Panel("Replica restarts", "Times that a supervisor has started its replica again, in the time shown.",
          "short", [("round(sum(increase(lockstep_trainer_replica_restarts_total{TRAINER}[$__range])))", "")],
          kind="stat", width=4, height=4),
    Panel("Checkpoint age", "Since the newest checkpoint was saved.", "s",
          [("time() - max(lockstep_trainer_checkpoint_last_success_timestamp_seconds{TRAINER} > 0)", "")],
          kind="stat", width=4, height=4),
    Row("Learning"),
    Panel("Loss", "Mean training loss since the epoch's start, and of the test set at the last evaluation. Rank 0 "
          "knows it for the whole job; each variant of Independent has its own.", "short", learned("loss")),
    Panel("Accuracy", "The same for the accuracy; empty with a loss of regression.", "percentunit",
          learned("accuracy_ratio"), maximum=1),
    Panel("Mean absolute error", "The same for a loss of regression; else empty.", "short",
          learned("mean_absolute_error")),
    Panel("Metrics by name", "What `evaluation.metrics` names, of the test set at the last evaluation; empty without.",
          "short", [(leading("lockstep_trainer_test_metric", "metric"), "rank {{rank}}, {{metric}}"),
                    ("max by (metric) (lockstep_trainer_evaluator_test_metric{TRAINER})", "Evaluator, {{metric}}")]),
    Panel("Gradient norm", "Of the mean gradient of the latest step. Where it grows by orders of "
          "magnitude, the job is about to diverge.", "short",
          [(leading("lockstep_trainer_gradient_norm"), "rank {{rank}}")]),
    Panel("Learning rate", "Of the latest step.", "sci",
          [(leading("lockstep_trainer_learning_rate"), "rank {{rank}}")]),
    Panel("Skipped steps", "Steps since the job began that updated nothing because a number was not finite "
          "(`training.maxSkippedSteps`).", "short", [(leading("lockstep_trainer_skipped_steps"), "rank {{rank}}")]),
    Row("Speed"),
    Panel("Samples per second", "Of all ranks together.", "short",
          [("sum(rate(lockstep_trainer_examples_total{TRAINER}[WINDOW]))", "samples/s")]),
    Panel("Step time", "From one step to the next, as the leading rank sees it.", "s",
          quantiles("lockstep_trainer_step_duration_seconds", "TRAINER", (0.5, 0.99)) +
          [("sum(rate(lockstep_trainer_step_duration_seconds_sum{TRAINER}[WINDOW])) / "
            "sum(rate(lockstep_trainer_step_duration_seconds_count{TRAINER}[WINDOW]))", "mean")]),
    Panel("Where the time goes", "Of all ranks. `communication` is what they wait for each other's "
          "gradients beyond what computing hides, `rework` what is done again after a checkpoint.",
          "percentunit",
          [('sum by (phase) (rate(lockstep_trainer_time_seconds_total{TRAINER}[WINDOW])) / ignoring (phase) '
            'group_left () sum(rate(lockstep_trainer_time_seconds_total{TRAINER}[WINDOW]))', "{{phase}}")],
          stacked=True, minimum=0, maximum=1),
    Panel("Slowness of ranks", "The time that a step takes a rank without waiting for others, as a "
          "multiple of the median of its stage, or of the other of two: a straggler is a row of another colour.",
          "short",
          [(slowness(), "rank {{rank}}")], kind="status-history", width=12,
          thresholds=[("green", None), ("yellow", 1.1), ("orange", 1.3), ("red", 2)]),
    Panel("Slowest ranks now", "The same, for the latest minutes.", "short",
          [(f"topk(10, {slowness()})", "")], kind="table", width=12,
          columns={"rank": "Rank"}),
    Panel("Input", "Part of a rank's time that it waits for data.", "percentunit",
          [(time_rate("input", OF_RANK), "rank {{rank}}")], minimum=0),
    Panel("All-reduce", "Bytes a second that each rank puts into all-reduces.", "Bps",
          [(f"sum by ({OF_RANK}) (rate(lockstep_trainer_allreduce_bytes_total{{TRAINER}}[WINDOW]))",
            "rank {{rank}}")]),
    Panel("Waiting for gradients", "Part of a rank's time that communication is not hidden behind "
          "computing. A straggler waits least.", "percentunit",
          [(time_rate("communication", OF_RANK), "rank {{rank}}")], minimum=0),
    Row("Faults and checkpoints"),
    Panel("Ranks", "How many train together, and how many there are to scrape.", "short",
          [(f"max({group_size()}) or max(lockstep_trainer_world_size{{TRAINER}} == 1)", "of the group"),
           ("count(lockstep_trainer_step{TRAINER})", "up")], width=6),
    Panel("Restarts by the operator", "And by kubelets, by cause; those within a container are its supervisor's, at the top.", "short",
          [(f"sum by (cause) (max by (cause, instance) ({growth('lockstep_operator_job_status_restarts_total')}))",
            "{{cause}}")],
          width=6, stacked=True),
    Panel("Checkpoints", "Step of the newest checkpoint, and of the job.", "short",
          [("max(lockstep_trainer_checkpoint_last_step{TRAINER})", "saved"),
           ("max(lockstep_trainer_step{TRAINER})", "trained")], width=6),
    Panel("Samples lost or used twice", "By the ledger that each epoch's end checks. Not 0 is a bug.",
          "short", [(f"max(lockstep_trainer_samples_{kind}{{TRAINER}} or lockstep_operator_job_samples_{kind}{{TRAINER}})",
                     legend) for kind, legend in (("lost", "lost"), ("duplicated", "used twice"))], width=6),
    Panel("Time of a checkpoint", "To write it to its volume, while training goes on.", "s",
          quantiles("lockstep_trainer_checkpoint_duration_seconds", "TRAINER", (0.5, 0.95)), width=6),
    Panel("Size of a checkpoint", "Parameters and optimizer state of the newest.", "bytes",
          [("max(lockstep_trainer_checkpoint_size_bytes{TRAINER})", "size")], width=6),
    Panel("Checkpoints that failed", "They could not be saved; the trainer's log says why. It tries again at "
          "the next one.", "short",
          [("sum(increase(lockstep_trainer_checkpoint_failures_total{TRAINER}[WINDOW]))", "failed")], width=6),
    Panel("Callers refused", "Calls to the job's rendezvous without proof that the caller knows the job's "
          "token. Not 0: somebody else reaches its pods.", "short",
          [("sum(increase(lockstep_trainer_rendezvous_refusals_total{TRAINER}[WINDOW]))", "refused")],
          width=6),
    Panel("Replicas that start again", "How often their supervisors have started them again, in the time shown; those of "
          "pods that have ended, too. `lockstep logs` takes the role and the index.", "short",
          [("topk(10, round(sum by (role, replica_index, rank) (increase("
            "lockstep_trainer_replica_restarts_total{TRAINER}[$__range]))) > 0)", "")], kind="table", width=12,
          columns={"role": "Role", "replica_index": "Index", "rank": "Rank"}),
    Panel("Variants that diverged", "Of `Independent`: their numbers were no longer finite, and they have ended.", "short",
          [('max(lockstep_operator_job_diverged_variants{TRAINER})', "pods that have ended"),
           ("sum(lockstep_trainer_diverged{TRAINER})", "in pods that run")], width=6),
    Row("Parameter servers and Evaluator"),
    Panel("Gradients at the servers", "Updates per second of the values that each holds, and gradients that came again "
          "or too late and changed nothing.", "ops",
          [("sum by (server) (rate(lockstep_trainer_server_updates_total{TRAINER}[WINDOW]))", "server {{server}}"),
           ("sum by (server) (rate(lockstep_trainer_server_dropped_gradients_total{TRAINER}[WINDOW]))",
            "server {{server}}, dropped")]),
    Panel("Staleness", "Updates that the values had seen since a gradient was computed with them; with Async and N "
          "workers of equal speed, N - 1.", "short",
          quantiles("lockstep_trainer_server_staleness_updates", "TRAINER")),
    Panel("Evaluator", "Step of the checkpoint that it has evaluated last, and of the last one that the leading pod "
          "has saved. If they stay apart, it is too slow, or does not see the leading pod's volume.", "short",
          [("max(lockstep_trainer_evaluator_step{TRAINER})", "evaluated"),
           ("max(lockstep_trainer_evaluator_leader_checkpoint_step{TRAINER})", "saved")]),
    Row("GPUs (from DCGM's exporter)"),
    Panel("SMs active", "Part of the time that a multiprocessor had work, which `GPU utilization` does "
          "not say. The exporter's own lists of counters lack it: add DCGM_FI_PROF_SM_ACTIVE.", "percentunit",
          [(of_gpus("avg", "DCGM_FI_PROF_SM_ACTIVE"), "{{pod}} {{gpu}}")], maximum=1),
    Panel("Tensor cores active", "Part of the time that tensor cores worked.", "percentunit",
          [(of_gpus("avg", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), "{{pod}} {{gpu}}")], maximum=1),
    Panel("Memory bandwidth", "Part of the time that the device's memory was read or written.",
          "percentunit", [(of_gpus("avg", "DCGM_FI_PROF_DRAM_ACTIVE"), "{{pod}} {{gpu}}")],
          maximum=1),
    Panel("Memory used", "Of the device.", "mbytes",
          [(of_gpus("max", "DCGM_FI_DEV_FB_USED"), "{{pod}} {{gpu}}")]),
    Panel("Power", "Drawn by the device.", "watt",
          [(of_gpus("max", "DCGM_FI_DEV_POWER_USAGE"), "{{pod}} {{gpu}}")]),
    Panel("XID errors", "The latest error that the driver has reported; 0: none.", "none",
          [(of_gpus("max", "DCGM_FI_DEV_XID_ERRORS"), "{{pod}} {{gpu}}")]),
]

OF_OPERATOR = " and on (job, instance) lockstep_operator_build_info{OPERATOR}"
OPERATOR = [
    Panel("Leaders", "Of each operator, how many replicas lead. Anything but 1 for long is a fault.", "short",
          [(f"sum by ({BY_OPERATOR}) (lockstep_operator_leader{{OPERATOR}})", "{{namespace}}/{{job}}")], kind="stat",
          width=4, height=4,
          thresholds=[("red", None), ("green", 1), ("red", 2)]),
    Panel("Version", "Which operators there are.", "string",
          [("count by (version) (lockstep_operator_build_info{OPERATOR})", "{{version}}")], kind="stat",
          width=4, height=4),
    Panel("Jobs waiting", "Jobs that are due and wait for a worker.", "short",
          [("sum(lockstep_operator_workqueue_depth{OPERATOR})", "")], kind="stat", width=4, height=4),
    Panel("Longest look", "How long the longest look at a job under way has taken so far.", "s",
          [("max(lockstep_operator_workqueue_longest_running_seconds{OPERATOR})", "")], kind="stat",
          width=4, height=4),
    Panel("Oldest watch event", "Since the watch that has been quiet longest brought something; a healthy "
          "one brings a bookmark every minute or so.", "s",
          [("time() - min(lockstep_operator_watch_last_event_timestamp_seconds{OPERATOR})", "")],
          kind="stat", width=4, height=4),
    Panel("Jobs without series", "Jobs that have no series of their own because there are too many.",
          "short", [(f"sum(max by ({BY_OPERATOR}) (lockstep_operator_job_series_left_out{{OPERATOR}}))", "")],
          kind="stat", width=4, height=4),
    Row("Work"),
    Panel("Looks at jobs", "Per second, by how they ended.", "ops",
          [("sum by (result) (rate(lockstep_operator_reconcile_total{OPERATOR}[WINDOW]))", "{{result}}")]),
    Panel("Time of a look", "API calls included.", "s",
          quantiles("lockstep_operator_reconcile_duration_seconds", of=(0.5, 0.99))),
    Panel("Wait for a worker", "How long jobs that were due waited.", "s",
          quantiles("lockstep_operator_workqueue_queue_duration_seconds", of=(0.5, 0.99))),
    Panel("Queue", "Jobs that are due, and those that are to be looked at later.", "short",
          [("sum(lockstep_operator_workqueue_depth{OPERATOR})", "due"),
           ("sum(lockstep_operator_workqueue_delayed{OPERATOR})", "later")]),
    Panel("Into the queue", "Jobs that became due, those put off after an error, and those put off because "
          "the caches had not seen the operator's own writes yet.", "ops",
          [("sum(rate(lockstep_operator_workqueue_adds_total{OPERATOR}[WINDOW]))", "due"),
           ("sum(rate(lockstep_operator_workqueue_retries_total{OPERATOR}[WINDOW]))", "after an error"),
           ("sum(rate(lockstep_operator_stale_read_deferrals_total{OPERATOR}[WINDOW]))", "stale cache")]),
    Panel("Jobs", "Created and ended, per second.", "ops",
          [("sum(rate(lockstep_operator_jobs_created_total{OPERATOR}[WINDOW]))", "created"),
           ("sum(rate(lockstep_operator_jobs_succeeded_total{OPERATOR}[WINDOW]))", "succeeded"),
           ("sum(rate(lockstep_operator_jobs_failed_total{OPERATOR}[WINDOW]))", "failed")]),
    Row("API server"),
    Panel("Calls", "Per second, by verb and resource.", "reqps",
          [("sum by (verb, resource) (rate(lockstep_operator_kube_client_requests_total{OPERATOR}[WINDOW]))",
            "{{verb}} {{resource}}")]),
    Panel("How calls end", "Per second, by outcome. Now and then a CONFLICT is part of the work: somebody "
          "else wrote first.", "reqps",
          [("sum by (code) (rate(lockstep_operator_kube_client_requests_total{OPERATOR}[WINDOW]))",
            "{{code}}")]),
    Panel("Time of a call", "The slowest in a hundred, by verb; watches left out.", "s",
          [(quantile(0.99, "lockstep_operator_kube_client_request_duration_seconds", "OPERATOR", "verb"),
            "{{verb}}")]),
    Panel("Watches that ended", "`Closed` is the server's time limit; others are faults.", "short",
          [("sum by (resource, reason) (increase(lockstep_operator_watch_restarts_total{OPERATOR}[WINDOW]))",
            "{{resource}} {{reason}}")]),
    Panel("Quiet watches", "Since a watch of an operator that leads last brought an event.", "s",
          [(f"time() - min by ({BY_OPERATOR}, resource) ("
            "lockstep_operator_watch_last_event_timestamp_seconds{OPERATOR} "
            "and on (job, instance) lockstep_operator_leader{OPERATOR} == 1)",
            "{{namespace}}/{{job}} {{resource}}")]),
    Panel("Caches", "Objects in them; a cache that is not filled, or that has lost a namespace, counts as 0.", "short",
          [("max by (resource) (lockstep_operator_cache_objects{OPERATOR} * on (job, instance, resource) "
            "lockstep_operator_cache_synced{OPERATOR})", "{{resource}}")]),
    Row("Process"),
    Panel("Up for", "Since the process began. A restart in its pod begins at 0.", "s",
          [("time() - process_start_time_seconds{OPERATOR}" + OF_OPERATOR, "{{instance}}")], width=6),
    Panel("Memory", "Resident.", "bytes",
          [("process_resident_memory_bytes{OPERATOR}" + OF_OPERATOR, "{{instance}}")], width=6),
    Panel("CPU", "Cores in use.", "short",
          [("rate(process_cpu_seconds_total{OPERATOR}[WINDOW])" + OF_OPERATOR, "{{instance}}")], width=6),
    Panel("Open files", "And connections.", "short",
          [("process_open_fds{OPERATOR}" + OF_OPERATOR, "{{instance}}")], width=6),
]

# name: (title, description, panels, which training jobs the variables name)
DASHBOARDS = {
    "fleet": ("Lockstep / Fleet", "All TrainingJobs: what runs, what fails, what is lost.", FLEET, "all"),
    "training-job": ("Lockstep / Training job", "One TrainingJob: how it learns, how fast, and what holds "
                     "it up.", TRAINING_JOB, "one"),
    "operator": ("Lockstep / Operator", "lockstep-operator itself.", OPERATOR, None),
}


def expression(text):
    for name, matchers in MATCHERS.items():
        text = text.replace(f"{{{name}", f"{{{matchers}")
    return text.replace("WINDOW", "$__rate_interval")


def datasource():
    return {"type": "prometheus", "uid": "${datasource}"}


def variable(name, label, query, one=False):
    made = {"name": name, "label": label, "type": "query", "datasource": datasource(), "query": query,
            "definition": query, "refresh": 2, "sort": 1}
    if one:
        return {**made, "includeAll": False, "multi": False, "current": {}}
    return {**made, "includeAll": True, "multi": True, "allValue": ".+",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def variables(jobs_shown):
    ours = '{__name__=~"lockstep_operator_build_info|lockstep_trainer_step"}'
    if not jobs_shown:
        ours = "lockstep_operator_build_info"
    made = [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
             "current": {}, "hide": 0, "refresh": 1},
            variable("job", "Job", f"label_values({ours}, job)"),
            variable("instance", "Instance", f"label_values({ours}, instance)")]
    if jobs_shown:
        one = jobs_shown == "one"  # panels add up what they find, and steps of different jobs make no sum
        jobs = '{__name__=~"lockstep_operator_job_status|lockstep_trainer_step"'
        made += [variable("namespace", "Namespace", f"label_values({jobs}}}, namespace)", one),
                 variable("trainingjob", "Training job",
                          f'label_values({jobs}, namespace=~"$namespace"}}, trainingjob)', one)]
    return made


def field_config(panel):
    steps = [{"color": color, "value": value} for color, value in panel.thresholds]
    defaults = {"unit": panel.unit,
                "thresholds": {"mode": "absolute", "steps": steps or [{"color": "green", "value": None}]}}
    if panel.minimum is not None:
        defaults["min"] = panel.minimum
    if panel.maximum is not None:
        defaults["max"] = panel.maximum
    if panel.links:
        defaults["links"] = panel.links
    if panel.kind == "timeseries":
        defaults["custom"] = {"drawStyle": "line", "lineWidth": 1, "showPoints": "never",
                              "fillOpacity": 30 if panel.stacked else 5, "spanNulls": False,
                              "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"}}
    if panel.kind == "status-history":
        defaults["color"] = {"mode": "thresholds"}
        defaults["custom"] = {"fillOpacity": 80, "lineWidth": 0}
    return {"defaults": defaults, "overrides": []}


def options(panel):
    if panel.kind == "timeseries":
        return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "stat":
        return {"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "textMode": "name" if panel.unit == "string" else "auto"}
    if panel.kind == "status-history":
        return {"showValue": "never", "rowHeight": 0.9, "legend": {"displayMode": "list",
                                                                   "placement": "bottom"}}
    return {"showHeader": True, "sortBy": [{"displayName": "Value", "desc": True}]}


def transformations(panel):
    if panel.kind != "table":
        return []
    return [{"id": "organize", "options": {
        "excludeByName": {"Time": True}, "renameByName": {},
        "indexByName": {name: index for index, name in enumerate(panel.columns)}}}]


def targets(panel):
    once = panel.kind in ("table", "stat")
    return [{"datasource": datasource(), "refId": chr(ord("A") + index), "expr": expression(query),
             "legendFormat": legend or "__auto", "instant": once, "range": not once,
             **({"format": "table"} if panel.kind == "table" else {})}
            for index, (query, legend) in enumerate(panel.queries)]


def panels(described):
    """The panels and rows as Grafana wants them, laid out from left to right."""
    made, x, y, height = [], 0, 0, 0
    for number, panel in enumerate(described, 1):
        if isinstance(panel, Row):
            y, x, height = y + height, 0, 0
            made.append({"id": number, "type": "row", "title": panel.title, "collapsed": False,
                         "panels": [], "gridPos": {"h": 1, "w": ROW_WIDTH, "x": 0, "y": y}})
            y += 1
            continue
        if x + panel.width > ROW_WIDTH:
            y, x, height = y + height, 0, 0
        height = max(height, panel.height)
        made.append({
            "id": number, "type": panel.kind, "title": panel.title, "description": panel.description,
            "datasource": datasource(), "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
            "fieldConfig": field_config(panel), "options": options(panel), "targets": targets(panel),
            "transformations": transformations(panel),
            # Grafana asks for a point per pixel, but draws no status history of more than one for two pixels.
            **({"maxDataPoints": 100} if panel.kind == "status-history" else {})})
        x += panel.width
    return made


def annotations(name):
    if name != "training-job":
        return []
    marks = (("Restarts", "red", "changes(lockstep_trainer_replica_restarts_total{TRAINER}[WINDOW]) > 0"),
             ("Checkpoints", "blue", 'changes(lockstep_trainer_checkpoint_last_step{TRAINER}[WINDOW]) > 0'))
    return [{"name": title, "datasource": datasource(), "enable": title == "Restarts", "iconColor": color,
             "expr": expression(query), "step": "60s", "titleFormat": title} for title, color, query in marks]


def links(name):
    """To the other dashboards, which take over the data source. Another variable of the same name has other values there:
    those of `instance` are operators or trainers, and all jobs are not one."""
    return [{"title": DASHBOARDS[other][0], "type": "link", "icon": "dashboard", "keepTime": True, "includeVars": False,
             "url": f"/d/lockstep-{other}?${{datasource:queryparam}}"} for other in DASHBOARDS if other != name]


def dashboard(name):
    title, description, described, jobs_shown = DASHBOARDS[name]
    return {
        "uid": f"lockstep-{name}", "title": title, "description": description, "tags": ["lockstep"],
        "editable": False, "graphTooltip": 1, "schemaVersion": 39, "version": 1, "timezone": "",
        "refresh": "30s", "time": {"from": "now-1h", "to": "now"},
        "links": links(name),
        "annotations": {"list": annotations(name)}, "templating": {"list": variables(jobs_shown)},
        "panels": panels(described)}


def texts():
    """{name: JSON text}"""
    return {name: json.dumps(dashboard(name), indent=1) + "\n" for name in DASHBOARDS}
