"""Results that are kept: folders that are resumed, extended and asked.

`campaign` is the folder as its user sees it; `planning` what a run is asked for and costs; `ledger`
what the database holds; `store` the files: database, parts, lock.
"""

from lasthop.campaign.campaign import Campaign
from lasthop.campaign.ledger import StoredRun
from lasthop.campaign.planning import Plan
from lasthop.campaign.store import CampaignError

__all__ = ["Campaign", "CampaignError", "Plan", "StoredRun"]
