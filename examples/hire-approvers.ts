/**
 * Adds Ana, who asks, and the approvers of the example tasks to a running installation and redeems their invitations:
 *
 *   node examples/hire-approvers.ts [.concord] [http://127.0.0.1:7420]
 *
 * Folder and address default to CONCORD_HOME, CONCORD_URL and CONCORD_PORT. It calls the server as its first administrator and
 * fails on a second run, because the people already exist.
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { readConfig, serverAddress } from '#app/config'

/** Ana asks for work: people whom the first administrator invited cannot approve what the administrator asks for. */
const staff = [
  ['ana', null],
  ['dora', 'data-owner'],
  ['ben', 'booking-approver'],
  ['bo', 'budget-owner'],
] as const

/** Prints the error and the next step to standard error, because standard output is a script to run. */
function giveUp(what: string, next: string): never {
  console.error(`No approver was added: ${what}\n  next   ${next}`)
  process.exit(1)
}

const config = readConfig(process.env, process.cwd())
if (!config.ok) giveUp(config.reason, config.hint ?? 'concord doctor --settings lists all settings')
const [home = config.value.home, url = serverAddress(config.value)] = process.argv.slice(2)
const keyFile = join(resolve(home), 'admin.key')

function readKey(): string {
  try {
    return readFileSync(keyFile, 'utf8').trim()
  } catch {
    return giveUp(
      `there is no ${keyFile}`,
      'start the server first (npm start), or name its folder: npx node examples/hire-approvers.ts <folder>',
    )
  }
}
const key = readKey()

type Problem = { readonly detail?: string; readonly hint?: string }

async function post<Answer>(path: string, body: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) }).catch(() =>
    giveUp(
      `nothing answers at ${url}`,
      'start the server (npm start), or set CONCORD_URL or CONCORD_PORT to where it is',
    ),
  )
  if (response.ok) return (await response.json()) as Answer
  const { detail = `status ${response.status}`, hint } = (await response.json().catch(() => ({}))) as Problem
  const next = response.status === 401 ? `is ${keyFile} the key of ${url}?` : 'concord people list says who is there'
  return giveUp(`POST ${path} at ${url}: ${detail}`, hint === undefined ? next : `${hint} ${next}`)
}

for (const [name, role] of staff) {
  const person = { external_id: `local:${name}`, role: 'writer' }
  const { user_id, invitation } = await post<{ user_id: string; invitation: string }>('/people', person)
  if (role !== null) {
    await post('/org-roles', { slug: role, name: role })
    await post(`/people/${user_id}/org-roles`, { org_role: role })
  }
  const made = await post<{ key: string }>('/invitations/redeem', { invitation })
  console.log(`export ${name.toUpperCase()}=${made.key}`)
}
