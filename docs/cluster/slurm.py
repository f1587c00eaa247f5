"""A campaign on a Slurm cluster by dask-jobqueue; adapt the names and sizes, then run it.

    python slurm.py sweep.toml results/loss

On PBS use `PBSCluster` and `resource_spec` instead of `memory`; see docs/cluster.md.
"""

import sys

from dask_jobqueue import SLURMCluster
from distributed import Client

import lasthop
from lasthop import cluster


def main(scenario: str, folder: str) -> None:
    """Runs a scenario on jobs of 32 workers each, up to 640 workers."""
    with (
        SLURMCluster(
            queue="compute",
            account="project",
            cores=32,
            processes=32,  # one thread each
            memory="32 GB",
            walltime="04:00:00",
            # Only holders of this run's key can connect; a folder that all nodes can read has it.
            security=True,
            shared_temp_directory=".",
            scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            # All nodes need one installation, so that all engines are equal.
            python="/shared/venv/bin/python",
            job_script_prologue=[
                f"export {name}={value}" for name, value in cluster.worker_environment().items()
            ],
        ) as jobs,
        Client(jobs) as client,
    ):
        jobs.adapt(minimum_jobs=1, maximum_jobs=20)
        client.wait_for_workers(1)
        campaign = lasthop.Campaign(folder, cluster=cluster.connect(client))
        campaign.record(lasthop.load(scenario))


if __name__ == "__main__":
    main(*sys.argv[1:])
