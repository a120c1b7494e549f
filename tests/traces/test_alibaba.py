"""Alibaba's pods and nodes, and plain CSVs."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduler.simulator import parse, simulate
from scheduler.simulator.counted import CountedJob
from scheduler.traces import TraceError, alibaba, counted

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
WHOLE = "pod-1,12000,16384,2,1000,,LS,Running,10,110,30\n"
PART = "pod-2,6000,12288,1,460,,BE,Failed,20,50,20\n"
NO_GPU = "pod-3,6000,12288,0,0,,LS,Running,20,50,20\n"
NEVER = "pod-4,6000,12288,1,1000,,BE,Pending,20,50,\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,64000,262144,0,\nn3,64000,262144,8,T4\n"


def test_pods_that_ran_on_gpus() -> None:
    assert alibaba.read(PODS + WHOLE + PART + NO_GPU + NEVER) == alibaba.Pods(
        jobs=[CountedJob("pod-1", 10, 80, 2_000, "LS"), CountedJob("pod-2", 20, 30, 460, "BE")],
        without_gpu=1,
        never_ran=1,
    )


def test_nodes_that_have_gpus() -> None:
    assert alibaba.read_nodes(NODES) == ({"n1": 2, "n3": 8}, {"n1": "P100", "n3": "T4"})
    without_model = NODES.replace("model", "kind")
    assert alibaba.read_nodes(without_model) == ({"n1": 2, "n3": 8}, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PODS.replace("gpu_milli", "milli"), "row 1, gpu_milli: this column is missing"),
        (
            PODS + PART.replace("460", "1460"),
            "row 2, gpu_milli: must be at most 1000, and that for whole GPUs, not 1460",
        ),
        (
            PODS + WHOLE.replace("1000", "500"),
            "row 2, gpu_milli: must be at most 1000, and that for whole GPUs, not 500",
        ),
        (PODS + PART.replace("460", "0"), "row 2, gpu_milli: must be at least 1, but is 0"),
        (PODS + WHOLE.replace("110", "20"), "row 2, deletion_time: 20 is before scheduled_time, 30"),
        (PODS + WHOLE.replace(",30", ",5"), "row 2, scheduled_time: 5 is before creation_time, 10"),
        (PODS + WHOLE + WHOLE, "row 3, name: 'pod-1' is in row 2 already"),
        (PODS + WHOLE.replace(",LS", ","), "row 2, qos: is empty"),
        (PODS + "pod-1,2\n", "row 2: has 2 cells, the header has 11"),
    ],
)
def test_a_fault_of_the_pods_names_row_and_field(content: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        alibaba.read(content)
    assert str(caught.value) == message


def test_a_fault_of_the_nodes_names_row_and_field() -> None:
    with pytest.raises(TraceError, match="row 5, sn: node 'n1' is given twice"):
        alibaba.read_nodes(NODES + "n1,1,1,1,\n")
    with pytest.raises(TraceError, match="row 2, gpu: must be a whole number, not 'two'"):
        alibaba.read_nodes(NODES.replace("262144,2,", "262144,two,"))


def test_the_whole_trace(shared: Path) -> None:
    pods = alibaba.read((shared / "traces" / "alibaba2023_openb_pod_list_default.csv").read_text())
    assert len(pods.jobs) + pods.without_gpu + pods.never_ran == 8_152
    assert pods.without_gpu == 1_088
    nodes = alibaba.read_nodes((shared / "traces" / "alibaba2023_openb_node_list_gpu_node.csv").read_text())
    assert (len(nodes.gpus), sum(nodes.gpus.values()), len(set(nodes.model.values()))) == (1_213, 6_212, 7)


def test_as_a_scenario(tmp_path: Path) -> None:
    pods, nodes, out = (tmp_path / name for name in ("pods.csv", "nodes.csv", "scenario.json"))
    pods.write_text(PODS + WHOLE + PART + NEVER)
    nodes.write_text(NODES)
    call_command("import_trace", str(pods), "--format", "alibaba", "--nodes", str(nodes), "--out", str(out))
    found = parse(out.read_text())
    assert {node.name: node.capacity_milli for node in found.nodes} == {"n1": 2_000, "n3": 8_000}
    assert {node.name: node.gpu_class for node in found.nodes} == {"n1": "P100", "n3": "T4"}
    assert {job.id: (job.size_milli, job.min_runtime_s) for job in found.jobs} == {
        "pod-1": (2_000, 80),
        "pod-2": (460, 0),
    }
    assert [(record.job.id, record.end_s) for record in simulate(found).jobs] == [("pod-1", 80), ("pod-2", 40)]


def test_the_nodes_are_needed(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS + WHOLE)
    with pytest.raises(CommandError, match="--nodes: is needed with --format alibaba"):
        call_command("import_trace", str(tmp_path / "pods.csv"), "--format", "alibaba", "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


# --- plain CSVs -------------------------------------------------------------------------------------------------------


def test_normalised_ids_stay_text() -> None:
    content = "job_id,submit_time,duration,num_gpus,vc\n007,0,66.0,1,103959\n1e3,5,0,2,6214e9\n"
    assert counted.read(content) == [
        CountedJob("007", 0, 66, 1_000, "103959"),
        CountedJob("1e3", 5, 0, 2_000, "6214e9"),
    ]


def test_columns_of_tiresias() -> None:
    content = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n1,8,30,133,vgg11,147,23\n"
    assert counted.read(content) == [CountedJob("1", 30, 147, 8_000)]


def test_any_format_is_told_by_how_it_begins(shared: Path) -> None:
    traces = shared / "traces"
    counts = {
        name: len(counted.read_any((traces / name).read_text()))
        for name in (
            "hpc2n.swf",
            "tiresias_60_job.csv",
            "philly_vc_103959.csv",
            "alibaba2023_openb_pod_list_default.csv",
        )
    }
    assert counts == {
        "hpc2n.swf": 3_170,
        "tiresias_60_job.csv": 60,
        "philly_vc_103959.csv": 1_934,
        "alibaba2023_openb_pod_list_default.csv": 6_203,
    }


def test_a_csv_as_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("job_id,submit_time,duration,num_gpus,vc\na,100,60,1,x\nb,130,60,9,y\n")
    arguments = [str(tmp_path / "trace.csv"), "--format", "csv", "--out", str(tmp_path / "out.json")]
    with pytest.raises(CommandError, match="--gpus: is needed with --format csv"):
        call_command("import_trace", *arguments)
    call_command("import_trace", *arguments, "--gpus", "16")
    found = parse((tmp_path / "out.json").read_text())
    assert [(job.id, job.leaf, job.submit_s, job.size_milli) for job in found.jobs] == [
        ("a", "x", 0, 1_000),
        ("b", "y", 30, 9_000),
    ]
    assert [node.capacity_milli for node in found.nodes] == [8_000, 8_000]
