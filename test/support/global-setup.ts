/**
 * Runs once around `node --test --test-global-setup=test/support/global-setup.ts`: starts one server, prepares one migrated
 * template, and puts their addresses into the environment of the test files. At the end the server stops, unless another run uses
 * it.
 */
import { dropLeftOver, prepareTemplate } from '../../src/testing/test-database.ts'
import { openSharedServer, SERVER_ENV, TEMPLATE_ENV, testServerUrl } from './postgres.ts'

const isOurs = process.env['TEST_DATABASE_URL'] === undefined

export async function globalSetup(): Promise<void> {
  // On a server that other machines share, a process id says nothing.
  const url = await testServerUrl()
  if (isOurs) await dropLeftOver(url)
  process.env[TEMPLATE_ENV] = await prepareTemplate(url)
  process.env[SERVER_ENV] = url
}

export async function globalTeardown(): Promise<void> {
  if (!isOurs) return
  const stopped = await (await openSharedServer()).stop()
  if (!stopped.ok) throw new Error(`The shared test server did not stop. ${stopped.reason}`)
}
