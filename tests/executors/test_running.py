"""Commands really run: started, fed their part of the gang, heard, stopped in their grace, resumed."""

from tests.executors.conftest import Site


def test_a_command_runs_and_what_it_prints_is_kept(site: Site) -> None:
    site.agent()
    workload = site.submit("/bin/echo", "hello from the node")
    site.wait(workload, "finished")
    run = site.run(workload)
    assert (run.exit_code, run.end_reason) == (0, "finished")
    assert run.started_at <= run.running_at <= run.ended_at
    assert site.printed(workload) == "hello from the node\n"
