/**
 * Runs schemathesis against a real server with a home of its own, once for each role. Ends with 1 when a run has a failure.
 * `npm run schemathesis -- --as reader --examples 30 --seed 7 --only createSchedule`
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readFlags } from '../../scripts/read-flags.ts'
import { endProcess, freePort, type Served, serveConcord } from '../support/concord-process.ts'

const ROLES = ['admin', 'writer', 'reader'] as const
type Role = (typeof ROLES)[number]

const root = fileURLToPath(new URL('../../', import.meta.url))
const { values: flags } = readFlags({
  options: {
    as: { type: 'string', multiple: true, default: [...ROLES] },
    examples: { type: 'string', default: '50' },
    seed: { type: 'string' },
    only: { type: 'string' },
    phases: { type: 'string' },
    report: { type: 'string' },
  },
})

/** The example project of the repository, with the scheduler on. */
async function start(folder: string): Promise<Served> {
  await writeFile(
    join(folder, 'concord.config.mjs'),
    `export { default } from ${JSON.stringify(`${root}concord.config.ts`)}\n`,
  )
  await writeFile(
    join(folder, 'job-types.json'),
    JSON.stringify({ job_types: [{ job_type: 'report', runner: { command: 'true' } }] }),
  )
  const env = {
    CONCORD_HOME: join(folder, 'home'),
    CONCORD_PORT: await freePort(),
    CONCORD_SCHEDULER_FILE: join(folder, 'jobs.db'),
    CONCORD_SCHEDULER_TYPES: join(folder, 'job-types.json'),
    CONCORD_RATE_LIMIT: '1000000',
  }
  return serveConcord({ env, cwd: folder })
}

async function call(address: string, path: string, body: object, key?: string): Promise<Record<string, string>> {
  const response = await fetch(`${address}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
  return JSON.parse(text) as Record<string, string>
}

type Key = { readonly key: string; readonly id: string }

/** A person of their own, so that a run that revokes keys ends no other run. */
async function keyOf(role: Role, { address, keyFile }: Served): Promise<Key> {
  const admin = (await readFile(keyFile, 'utf8')).trim()
  const { invitation } = await call(address, '/people', { external_id: `local:schemathesis-${role}`, role }, admin)
  const { key, key_id: id } = await call(address, '/invitations/redeem', { invitation })
  if (key === undefined || id === undefined) throw new Error(`There is no key for the role ${role}.`)
  return { key, id }
}

function schemathesis({ address }: Served, { key, id }: Key, role: Role): Promise<number> {
  const optional = [
    ...(flags.seed === undefined ? [] : ['--seed', flags.seed]),
    ...(flags.only === undefined ? [] : ['--include-operation-id', flags.only]),
    ...(flags.phases === undefined ? [] : ['--phases', flags.phases]),
    ...(flags.report === undefined
      ? []
      : ['--report', 'ndjson', '--report-ndjson-path', `${flags.report}.${role}.ndjson`]),
  ]
  const args = [
    '--config-file',
    fileURLToPath(new URL('./schemathesis.toml', import.meta.url)),
    'run',
    `${address}/openapi.json`,
    '--header',
    `Authorization: Bearer ${key}`,
    '--max-examples',
    flags.examples,
    ...optional,
  ]
  const hooks = fileURLToPath(new URL('./hooks.py', import.meta.url))
  const env = { ...process.env, SCHEMATHESIS_HOOKS: hooks, SCHEMATHESIS_OWN_KEY: id }
  return new Promise((resolve, reject) => {
    const child = spawn('schemathesis', args, { stdio: 'inherit', cwd: folder, env })
    child.on('error', reject).on('close', (code) => resolve(code ?? 1))
  })
}

const folder = await mkdtemp(join(tmpdir(), 'concord schemathesis '))
const server = await start(folder)
const failed: string[] = []
try {
  for (const role of ROLES.filter((name) => flags.as.includes(name))) {
    console.log(`\nAs ${role}`)
    if ((await schemathesis(server, await keyOf(role, server), role)) !== 0) failed.push(role)
  }
} finally {
  await endProcess(server)
  await rm(folder, { recursive: true, force: true })
}
if (failed.length > 0) {
  console.error(`schemathesis found failures as ${failed.join(', ')}`)
  process.exitCode = 1
}
