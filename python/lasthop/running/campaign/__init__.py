"""Results that are kept: folders that are resumed, extended and asked.

`campaign` is the folder as its user sees it; `planning` what a run is asked for and costs; `ledger`
what the database holds, `database` the database itself; `store` the folder with its parts and
lock.
"""

from lasthop.running.campaign.campaign import Campaign
from lasthop.running.campaign.database import CampaignError
from lasthop.running.campaign.ledger import StoredRun
from lasthop.running.campaign.planning import Plan

__all__ = ["Campaign", "CampaignError", "Plan", "StoredRun"]
