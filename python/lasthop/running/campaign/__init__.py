"""Campaigns: folders of stored results that can be resumed, extended and queried.

`campaign` has the public class, `planning` requests and their cost, `ledger` the contents of the
database, `database` the database, and `store` the folder with its parts and lock.
"""

from lasthop.running.campaign.campaign import Campaign
from lasthop.running.campaign.database import CampaignError
from lasthop.running.campaign.ledger import StoredRun
from lasthop.running.campaign.planning import Plan

__all__ = ["Campaign", "CampaignError", "Plan", "StoredRun"]
