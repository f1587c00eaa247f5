"""Train a small congestion control by the cross-entropy method, and compare it with CUBIC.

The policy is linear: three numbers turn a measurement into a factor of the window. It is trained on
a lossy link for at most a minute, and evaluated on other seeds. Run it with `python train.py`.
"""

import time

import numpy as np

import lasthop
import lasthop.gym

SCENARIO = """
name = "train"
[link.radio]
between = ["server", "client"]
rate = "10 Mbps"
delay = "20 ms"
queue = "60 packets"
errors = { kind = "uniform", loss = "1 %" }
[flow.download]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "cubic", profile = "rfc", receive_window = "1000 segments" }
app = { kind = "file", size = "1 GB" }
[run]
duration = "10 s"
"""
CANDIDATES, ELITE = 16, 4


def actions(policy, seen):
    """Returns the exponents of 2 by which windows are multiplied; one policy per row."""
    rtt_ratio, gradient = seen[:, 4], seen[:, 5]
    features = np.stack([np.ones(len(seen)), rtt_ratio - 1, gradient], axis=1)
    return np.clip((policy * features).sum(axis=1, keepdims=True), -1, 1).astype(np.float32)


def returns(envs, policy, seed):
    """Returns the sum of rewards of an episode for each policy."""
    seen, _ = envs.reset(seed=seed)
    total = np.zeros(envs.num_envs)
    running = np.ones(envs.num_envs, bool)
    while running.any():
        seen, rewards, terminated, truncated, _ = envs.step(actions(policy, seen))
        total += rewards * running
        running &= ~(terminated | truncated)
    return total


def train(seconds=60.0):
    """Returns the mean of the best policies."""
    envs = lasthop.gym.VectorEnv(lasthop.Scenario.from_toml(SCENARIO), CANDIDATES)
    random = np.random.default_rng(1)
    mean, spread = np.zeros(3), np.full(3, 0.5)
    end, generation = time.monotonic() + seconds, 0
    while time.monotonic() < end and generation < 40:
        policies = mean + spread * random.standard_normal((CANDIDATES, 3))
        scores = returns(envs, policies, seed=1000 * generation)
        best = policies[np.argsort(scores)[-ELITE:]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        generation += 1
        print(f"{generation:3} mean return {scores.mean():8.1f}, best {scores.max():8.1f}, {mean}")
    return mean


def evaluate(policy, seed=77):
    """Prints goodput and delay of the policy and of CUBIC on seeds that were not used before."""
    count = 10
    envs = lasthop.gym.VectorEnv(lasthop.Scenario.from_toml(SCENARIO), count)
    seen, _ = envs.reset(seed=seed)
    rates, rtts = [], []
    done = False
    while not done:
        seen, _, terminated, _, _ = envs.step(actions(np.tile(policy, (count, 1)), seen))
        rates.append(seen[:, 0])
        rtts.append(seen[:, 3])
        done = terminated.all()
    cubic = lasthop.run(lasthop.Scenario.from_toml(SCENARIO), replications=count, seed=seed)
    own = cubic.samples("flow.download.goodput_bps", 0).mean() / 1e6
    print(f"policy: {np.mean(rates):.2f} Mbit/s at a mean RTT of {1e3 * np.mean(rtts):.0f} ms")
    print(f"CUBIC:  {own:.2f} Mbit/s")


if __name__ == "__main__":
    evaluate(train())
