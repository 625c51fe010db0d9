/** Research by two workers, one in Python and one in Node: a check refuses an answer, a person reviews the next one, and a part of it runs again. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { dataOf, eventually } from './open-example.ts'
import { startConcord } from './start-concord.ts'

if (spawnSync('python3', ['--version']).status !== 0) {
  console.log('Skipped: one of the workers needs python3.')
  process.exit(0)
}
const folder = await mkdtemp(join(tmpdir(), 'compliance-'))
await using cleanup = new AsyncDisposableStack()
cleanup.defer(() => rm(folder, { recursive: true, force: true }))
const project = new URL('compliance/', import.meta.url)
const concord = cleanup.use(await startConcord(project, { COMPLIANCE_FOLDER: folder }))
const ana = await concord.person('ana')
const rita = await concord.person('rita', 'compliance-officer')
const keyOf = async (name: string) => ({ WORKER_KEY: (await concord.person(name)).key })
const program = (name: string) => fileURLToPath(new URL(name, project))
await concord.start('python3', [program('worker.py')], await keyOf('python-worker'))
await concord.start(process.execPath, ['--conditions=concord-source', program('worker.ts')], await keyOf('node-worker'))

// The server checks it.
type Request = { readonly goal: string; readonly plan: never; readonly config: never }
const { goal, plan, config } = JSON.parse(await readFile(new URL('mission.json', project), 'utf8')) as Request

/** Rita approves the output that passed the checks. */
async function follow(mission_id: string) {
  const params = { path: { mission_id } }
  const look = async () => dataOf(await ana.api.GET('/missions/{mission_id}', { params }))
  const reviewed = await eventually(async () => (await look()).tasks.find(({ state }) => state === 'awaiting_human'))
  const card = await eventually(async () => (await rita.inbox()).at(0))
  console.log(
    `  ${reviewed.temp_id}: attempt ${reviewed.attempt_number} passed the checks. Rita reviews it, and accepts.`,
  )
  await rita.approve(card, 'Good.')
  const ended = await eventually(async () => {
    const found = await look()
    return found.state_type === 'terminal' ? found : undefined
  })
  assert.equal(ended.state, 'completed', ended.error ?? '')
  // Its command ends after it.
  await ana.wait(ended.command_id)
  for (const { temp_id, attempt_number, cost } of ended.tasks)
    console.log(`  ${temp_id}: attempt ${attempt_number}, cost ${cost}`)
  return ended
}

const made = dataOf(await ana.api.POST('/missions', { body: { goal, plan, config } }))
console.log('The mission:')
const first = await follow(made.mission_id)
const query = { limit: 500 }
const events = dataOf(
  await ana.api.GET('/missions/{mission_id}/events', { params: { path: { mission_id: made.mission_id }, query } }),
).items
const refused = events.filter(({ type }) => type === 'task_verification_failed')
assert.equal(refused.length, 1)
console.log(`  Before, a check refused attempt 1 of gaps: ${String(refused[0]?.payload['verifier_feedback'])}`)
assert.deepEqual([first.total_cost, (await readdir(folder)).length], ['0.120000', 1])

const params = { path: { mission_id: made.mission_id } }
const again = { from: 'gaps', refire: [], config: { autonomy: 'full_auto' } as never }
const stopped = await ana.api.POST('/missions/{mission_id}/fork', { params, body: again })
const { code } = stopped.error as { readonly code: string }
assert.equal(code, 'missions.fork.effects_stand')
console.log(`A fork from gaps: ${code}. The report is filed already.`)
const fork = dataOf(await ana.api.POST('/missions/{mission_id}/fork', { params, body: { ...again, refire: ['file'] } }))
console.log('With the consent to file it again:')
const second = await follow(fork.mission_id)
assert.deepEqual([second.total_cost, (await readdir(folder)).length], ['0.100000', 2])
console.log('The rules were carried over at no cost.')
