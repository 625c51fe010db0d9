/** What the catalog gets from this room. */
import type { Definition } from '#domains/commands'
import { acceptOutputDefinitions } from './accept-output.ts'
import { runMissionDefinitions } from './create-mission.ts'
import type { MissionDeps } from './deps.ts'
import { repairDefinitions } from './repair-missions.ts'
import { startPlanDefinitions } from './start-plan.ts'
import { workerTaskDefinitions } from './worker-task.ts'

/** `deps` is called at the first use, because the catalog opens before the room. */
export function missionDefinitions(deps: () => MissionDeps): readonly Definition[] {
  return [
    ...runMissionDefinitions(deps),
    ...startPlanDefinitions(deps),
    ...acceptOutputDefinitions(deps),
    ...workerTaskDefinitions(deps),
    ...repairDefinitions(deps),
  ]
}
