declare module "sluice-gateway/plugin" {
  interface Slots {
    tenant: string;
    bodyTenant: string;
    signature: string;
  }
}
