"""Analytical models: closed forms and Markov chains, without simulation.

    >>> from lasthop import analysis
    >>> channel = analysis.Channel(0.1, 0.1, loss_in_good=0.01, loss_in_bad=0.9)
    >>> analysis.smallest_limit(channel, 0.01, pdus=25)
    33

Equations, sources and the misprints in them: `docs/analysis.md`. Every function raises
`AnalysisError`, a `ValueError`, for arguments that a model cannot work with. Probabilities are
fractions, times are in seconds, rates in packets or segments per second, unless the name has
another unit.
"""

from lasthop._lasthop import AnalysisError
from lasthop.evaluating.analysis.channels import (
    BlockLoss,
    Channel,
    block_code,
    exponential_bits_loss,
    independent_bits_loss,
    losses_among,
    markov_chain_loss,
    parity_for,
    run_lengths,
    two_state_loss,
)
from lasthop.evaluating.analysis.links import (
    IdealLink,
    arq,
    arq_delay,
    arq_efficiency,
    arq_quantile,
    energy_ratio,
    ideal_selective_repeat,
    mean_attempts,
    residual_loss,
    rlp_residual_loss,
    smallest_limit,
    transmissions_per_pdu,
)
from lasthop.evaluating.analysis.notification import (
    losses_in_a_row,
    notification_delay,
    notification_load,
)
from lasthop.evaluating.analysis.transport import (
    mathis,
    padhye,
    tcp_chain,
    tcp_formulas,
    tcp_over_arq,
    tcp_window,
)
from lasthop.evaluating.analysis.wlan import (
    dcf_saturation,
)

__all__ = [
    "AnalysisError",
    "BlockLoss",
    "Channel",
    "IdealLink",
    "arq",
    "arq_delay",
    "arq_efficiency",
    "arq_quantile",
    "block_code",
    "dcf_saturation",
    "energy_ratio",
    "exponential_bits_loss",
    "ideal_selective_repeat",
    "independent_bits_loss",
    "losses_among",
    "losses_in_a_row",
    "markov_chain_loss",
    "mathis",
    "mean_attempts",
    "notification_delay",
    "notification_load",
    "padhye",
    "parity_for",
    "residual_loss",
    "rlp_residual_loss",
    "run_lengths",
    "smallest_limit",
    "tcp_chain",
    "tcp_formulas",
    "tcp_over_arq",
    "tcp_window",
    "transmissions_per_pdu",
    "two_state_loss",
]
