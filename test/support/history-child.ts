/** A process that archives a history until a planned fault ends it. Argument: a JSON object. */
import { archiveHistory } from '../../src/domains/commands/index.ts'
import { openDb } from '../../src/store/db.ts'
import { type HistoryTask, oldWorld } from './history.ts'
import { TRACE } from './tenant.ts'

const { url, folder, limits } = JSON.parse(process.argv[2] ?? '') as HistoryTask
const db = openDb({ url, poolMax: 2 })
const { endedBefore, ...world } = oldWorld(db, folder)
const moved = await archiveHistory(world, { endedBefore, traceId: TRACE, ...(limits && { limits }) })
await db.close()
process.exitCode = moved.ok ? 0 : 1
