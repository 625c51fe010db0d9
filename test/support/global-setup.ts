/**
 * Runs once around `node --test --test-global-setup=test/support/global-setup.ts`: one server, one migrated template, and
 * their addresses in the environment, which the test files inherit. At the end the server stops, unless somebody else
 * (a test file run by hand, another checkout) uses it too.
 */
import { dropLeftOverDatabases, openSharedServer, SERVER_ENV, testServerUrl } from './postgres.ts'
import { prepareTemplate, TEMPLATE_ENV } from './template.ts'

const isOurs = process.env['TEST_DATABASE_URL'] === undefined

export async function globalSetup(): Promise<void> {
  // Process numbers say nothing about a server that other machines use too.
  if (isOurs) await dropLeftOverDatabases()
  process.env[TEMPLATE_ENV] = await prepareTemplate()
  process.env[SERVER_ENV] = await testServerUrl()
}

export async function globalTeardown(): Promise<void> {
  if (!isOurs) return
  const stopped = await (await openSharedServer()).stop()
  if (!stopped.ok) throw new Error(`the shared test server did not stop: ${stopped.reason}`)
}
