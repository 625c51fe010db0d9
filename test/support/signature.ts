/** The signature check of Concord, for tests of rooms that only sign. */
export { checkDelivery } from '../../src/domains/commands/receive-webhook.ts'
