/** A release as a mission of catalog tasks: what it will need, its approval, its tasks, its cost, and a letter that is sent once. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dataOf, eventually } from './open-example.ts'
import { startConcord } from './start-concord.ts'

const folder = await mkdtemp(join(tmpdir(), 'release-'))
await using cleanup = new AsyncDisposableStack()
cleanup.defer(() => rm(folder, { recursive: true, force: true }))
const concord = cleanup.use(await startConcord(new URL('release/', import.meta.url), { RELEASE_FOLDER: folder }))
const ana = await concord.person('ana')
const rita = await concord.person('rita', 'release-manager')

// The server checks it.
type Request = { readonly goal: string; readonly plan: never; readonly config: never }
const text = await readFile(new URL('release/mission.json', import.meta.url), 'utf8')
const { goal, plan, config } = JSON.parse(text) as Request

const needs = dataOf(await ana.api.POST('/missions/preflight', { body: { plan, config } }))
assert.equal(needs.is_ready, true)
console.log(`Before it starts: at most ${needs.spend.worst_case} of ${needs.spend.limit}.`)
for (const { tasks, approver, could_decide } of needs.approvals)
  console.log(`  ${tasks.join(', ') || 'the plan'}: ${approver} approves, which ${could_decide.join(', ')} can today`)
for (const { tasks, until } of needs.unknown) console.log(`  ${tasks.join(', ')}: unknown until ${until}`)

const { mission_id } = dataOf(await ana.api.POST('/missions', { body: { goal, plan, config } }))
const params = { path: { mission_id } }
const mission = async () => dataOf(await ana.api.GET('/missions/{mission_id}', { params }))
const inState = (state: string) =>
  eventually(async () => {
    const found = await mission()
    return found.state === state ? found : undefined
  })
const { tasks: before, next } = await inState('awaiting_approval')
assert.deepEqual([before, (await readdir(folder)).length], [[], 0])
const [first] = next
console.log(`The mission waits: ${first?.do} by ${first?.who}. Nothing has run.`)
dataOf(await rita.api.POST('/missions/{mission_id}/approve', { params, body: {} }))
console.log('Rita approves the plan.')

const waiting = await eventually(async () =>
  (await mission()).tasks.find(
    ({ temp_id, state, command_id }) => temp_id === 'announce' && state === 'running' && command_id,
  ),
)
const card = await eventually(async () => (await rita.inbox(waiting.command_id ?? '')).at(0))
assert.equal(card.approver, 'role:release-manager')
const letters = async () => (await readdir(folder)).filter((name) => name.startsWith('letter-')).length
assert.equal(await letters(), 0)
console.log('Notes, package and test are done. The announcement waits for the release manager.')
await rita.approve(card, 'Send it.')

const { tasks, total_cost, budget } = await inState('completed')
for (const { temp_id, state, cost } of tasks) console.log(`  ${temp_id}: ${state}, cost ${cost}`)
assert.deepEqual([total_cost, budget?.reserved, await letters()], ['0.400000', '0.000000', 1])
console.log(`Completed: it cost ${total_cost} of ${budget?.limit}, and one letter was sent.`)
