"""A worker in Python, with nothing but the standard library: collects the rules."""

import json
import os
import urllib.request


def post(path, body):
    request = urllib.request.Request(
        os.environ["CONCORD_URL"] + path,
        data=json.dumps(body).encode(),
        headers={
            "authorization": "Bearer " + os.environ["WORKER_KEY"],
            "content-type": "application/json",
        },
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


print("ready", flush=True)
while True:
    claim = {"queues": ["rules"], "worker": "python", "wait_seconds": 20}
    task = post("/mission-tasks/claim", claim)["claimed"]
    if task is None:
        continue
    path = "/mission-tasks/" + task["task_id"]
    lease = {"lease_token": task["lease_token"], "attempt": task["attempt"]}
    post(path + "/start", lease)
    rules = ["Keep the logs for 90 days.", "Encrypt the backups."]
    post(path + "/submit", {**lease, "output": {"rules": rules}, "summary": "2 rules.", "cost": "0.02"})
